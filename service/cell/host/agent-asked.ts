import type { Static } from 'typebox'
import type { Change, Changes } from '../../../contract/schemas/cell/change.ts'
import type { FileSearch } from '../../../contract/schemas/cell/search.ts'
import type { TerminalSize } from '../../../contract/schemas/cell/terminal.ts'

export interface ChangesFilter {
  path_prefix?: string
  limit: number
  cursor?: string
  hash: boolean
  summary: boolean
  /** From this number of new files on, the agent leaves their facts to the disk reader. */
  on_disk_from?: number
}

/** machine/internal/wire/agent.go: ExecRequest. */
export interface AgentExec {
  session_id: string
  fingerprint: string
  argv: string[]
  cwd: string
  user: string
  env: Record<string, string>
  stdin_base64?: string
  stdin_open?: true
  timeout_ms?: number
  kill_grace_ms?: number
}

/** machine/internal/wire/agent.go: PtyRequest. */
export type AgentTerminal = Pick<AgentExec, 'session_id' | 'fingerprint' | 'argv' | 'cwd' | 'user' | 'env'> & TerminalSize

export type Facts = Pick<Static<typeof Change>, 'type' | 'size' | 'mode'>
/** A change whose facts are on the disk has no size and mode. */
export type ChangesFound = Omit<Changes, 'data'> & { data: (Static<typeof Change> & { on_disk?: true })[] }

/** Set `cursor` and `recursive` only on request: agents before protocol 7 do not know them. */
export interface ListAsked {
  limit: number
  cursor?: string
  recursive?: true
}
export type SearchAsked = Required<Omit<FileSearch, 'cursor'>> & Pick<FileSearch, 'cursor'>

export interface RunsAsked {
  state?: 'running' | 'ended'
  limit: number
  cursor?: string
}

export interface WriteOptions {
  append?: boolean
  mode?: string
  create_parents?: boolean
}

export interface TarOptions {
  create_parents: boolean
  links_out: boolean
}

/** machine/internal/wire/git.go: GitRequest. */
export interface AgentGit {
  path: string
  env: Record<string, string>
  timeout_ms: number
}

export interface AgentClone extends AgentGit {
  url: string
  branch?: string
  depth?: number
  authorization?: string
}

export interface AgentCommit extends AgentGit {
  message: string
  paths?: string[]
  author?: { name: string; email: string }
}

/** machine/internal/wire/browser.go: BrowserRequest. */
export interface AgentVisit {
  url: string
  width: number
  height: number
  wait_until: string
  wait_ms: number
  timeout_ms: number
  env: Record<string, string>
  full_page?: boolean
  format?: string
}
