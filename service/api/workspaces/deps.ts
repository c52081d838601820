import type { CallDeps } from '../calls/deps.ts'
import type { Cells } from './cells.ts'
import type { Waits } from './operations/waits.ts'
import type { Signer } from './tool-tokens/signer.ts'

export interface WorkspaceDeps {
  waits: Waits
  cells: Cells
  signer: Signer
  /** New workspaces keep changes in a layer above the template, if its version supports that (App, "Open rules" 9). */
  layered_opens: boolean
  file_first: boolean
  delete_told_seconds: number
  /** Each port has its own name below this host. */
  ports_url: string
}

export type AnswerDeps = Pick<CallDeps, 'db' | 'reads' | 'clock' | 'ids' | 'base_url' | 'logger'> & Pick<WorkspaceDeps, 'waits' | 'signer'>
