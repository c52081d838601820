import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { LIMITS } from '../../../contract/limits.ts'
import type { SearchResult } from '../../../contract/schemas/cell/search.ts'
import { fail } from '../../lib/fail.ts'
import { BlobTrouble } from './blobs.ts'
import type { SearchTask } from './search-run.ts'

/** What the thread is given. */
export interface SearchOrder extends Omit<SearchTask, 'until_ms'> {
  /** Of the workspace's blobs. */
  folder: string
  within_ms: number
}

export type SearchAnswer = { result: SearchResult } | { trouble: Pick<BlobTrouble, 'kind' | 'digest'> }

/** As many as a computer of two processors bears beside its calls. */
const AT_ONCE = 2
const WAITING_MAX = 64
/** A pattern that is at one line when its time is over is cut off then: what was found is lost with it. */
const LATE_MS = 2000
const HEAP_MIB_MAX = 512

let running = 0
const waiting: (() => void)[] = []

/** Searches in a thread of its own, which ends with the search, with its time and with the caller's patience. */
export async function searchTree(order: Omit<SearchOrder, 'within_ms'>, signal: AbortSignal): Promise<SearchResult> {
  await place()
  try {
    signal.throwIfAborted()
    return await inThread({ ...order, within_ms: LIMITS.search.seconds_max * 1000 }, signal)
  } finally {
    running -= 1
    waiting.shift()?.()
  }
}

async function place(): Promise<void> {
  if (running >= AT_ONCE) {
    if (waiting.length >= WAITING_MAX) {
      throw fail('service_unavailable', null, 'Too many searches are waiting', {
        retry_after_seconds: LIMITS.tool_call.resource_limit_retry_seconds,
      })
    }
    const { promise, resolve } = Promise.withResolvers<void>()
    waiting.push(resolve)
    await promise
  }
  running += 1
}

async function inThread(order: SearchOrder, signal: AbortSignal): Promise<SearchResult> {
  const worker = new Worker(new URL('./search-worker.ts', import.meta.url), {
    workerData: order,
    resourceLimits: { maxOldGenerationSizeMb: HEAP_MIB_MAX },
    stdout: true,
    stderr: true,
  })
  const late = AbortSignal.timeout(order.within_ms + LATE_MS)
  try {
    const [answer] = (await once(worker, 'message', { signal: AbortSignal.any([signal, late]) })) as [SearchAnswer]
    if ('result' in answer) return answer.result
    throw new BlobTrouble(answer.trouble.kind, answer.trouble.digest)
  } catch (error) {
    if (late.aborted && !signal.aborted)
      return { matches: [], truncated: true, stop_reason: 'time_limit', files_scanned: 0, next_cursor: null }
    throw error
  } finally {
    await worker.terminate()
  }
}
