import { setTimeout } from 'node:timers/promises'
import type { CommandHeader } from '../../../../contract/internal/host-subject.ts'
import { HostFailure } from '../../host/hostd.ts'
import { buildSubject } from '../../host/subject.ts'
import type { CellContext } from '../job.ts'
import type { OpenOperation } from '../store.ts'
import type { Build, MadeVersion } from './store.ts'

const RETRY_MS_MIN = 50
const RETRY_MS_MAX = 1000

export interface BuildWork {
  cell: CellContext
  operation: OpenOperation
  build: Build
  /** Aborted when this process may no longer act for the cell. */
  signal: AbortSignal
  log(text: string): Promise<void>
}

/** `findings` contains only findings that the owner has not acknowledged. */
export type Made = Omit<MadeVersion, 'id' | 'template_id' | 'published' | 'now'> & { auto_publish: boolean }

export function askForBuild<T>(work: BuildWork, step: string, verb: (fence: CommandHeader) => Promise<T>): Promise<T> {
  const { operation, build, signal } = work
  const fence = { subject: buildSubject(build.id), operation_id: operation.id, step, epoch: 0, fence: operation.fence }
  signal.throwIfAborted()
  return untilAnswered(signal, () => verb(fence))
}

/** Repeats the command until the host answers. This is safe: the host executes a command of one fence and step only once. */
export async function untilAnswered<T>(signal: AbortSignal, ask: () => Promise<T>): Promise<T> {
  for (let wait_ms = RETRY_MS_MIN; ; wait_ms = Math.min(wait_ms * 2, RETRY_MS_MAX)) {
    try {
      return await ask()
    } catch (error) {
      if (!(error instanceof HostFailure) || error.code !== 'unreachable') throw error
      await setTimeout(wait_ms, undefined, { signal })
    }
  }
}
