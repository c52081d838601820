import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { LIMITS } from '../../../../contract/limits.ts'
import type { SearchResult } from '../../../../contract/schemas/cell/search.ts'
import { fail } from '../../../lib/fail.ts'
import { createKeyedCounts, createFairSemaphore, type FairSemaphore } from '../../../lib/bounded.ts'
import { BlobError } from './blobs.ts'
import type { SearchTask } from './search-run.ts'

export interface SearchOrder extends Omit<SearchTask, 'until_ms'> {
  folder: string
  within_ms: number
}

export type SearchAnswer = { result: SearchResult } | { trouble: Pick<BlobError, 'kind' | 'digest'> }

export interface Searcher {
  id: string
  organization_id: string
}

export interface Searches {
  search(who: Searcher, order: Omit<SearchOrder, 'within_ms'>, signal: AbortSignal): Promise<SearchResult>
}

/** A thread may be stuck in one line. It is terminated after this time, and its matches are lost. */
const LATE_MS = 2000
const HEAP_MIB_MAX = 512
const { at_once_max, at_once_per_organization_max, waiting_max, waiting_per_organization_max, per_workspace_max } = LIMITS.tree_search
const retry_after_seconds = LIMITS.tool_call.resource_limit_retry_seconds

export function createSearches(): Searches {
  const line = createFairSemaphore(
    {
      at_once: at_once_max,
      at_once_per_name: at_once_per_organization_max,
      waiting_per_name: waiting_per_organization_max,
      waiting: waiting_max,
    },
    crowded,
  )
  const running = createKeyedCounts()
  const threads = createThreads()
  return {
    async search({ id, organization_id }, order, signal) {
      if (running.of(id) >= per_workspace_max)
        throw fail('rate_limited', null, 'Too many searches of the workspace are under way', { retry_after_seconds })
      using _search = running.take(id)
      return await runQueued(line, organization_id, (within_ms) => threads.run({ ...order, within_ms }, signal), signal)
    },
  }
}

/** The time limit includes the wait in the queue. */
async function runQueued<Result>(
  line: FairSemaphore,
  organization_id: string,
  work: (within_ms: number) => Promise<Result>,
  signal: AbortSignal,
): Promise<Result> {
  const most_ms = LIMITS.search.seconds_max * 1000
  const until_ms = performance.now() + most_ms
  const late = AbortSignal.timeout(most_ms)
  try {
    return await line.run(
      organization_id,
      () => work(Math.max(0, Math.round(until_ms - performance.now()))),
      AbortSignal.any([signal, late]),
    )
  } catch (error) {
    if (late.aborted && error === late.reason) throw crowded()
    throw error
  }
}

function crowded() {
  return fail('service_unavailable', null, 'Too many searches are waiting', { retry_after_seconds })
}

/** Idle threads are reused, because starting a thread takes longer than most searches. */
function createThreads() {
  const idle: Worker[] = []
  const begin = (): Worker => {
    const worker = new Worker(new URL('./search-worker.ts', import.meta.url), {
      resourceLimits: { maxOldGenerationSizeMb: HEAP_MIB_MAX },
      stdout: true,
      stderr: true,
    })
    const drop = () => {
      const at = idle.indexOf(worker)
      if (at >= 0) idle.splice(at, 1)
    }
    worker.on('error', drop).on('exit', drop)
    worker.unref()
    return worker
  }
  return {
    async run(order: SearchOrder, signal: AbortSignal): Promise<SearchResult> {
      signal.throwIfAborted()
      const worker = idle.pop() ?? begin()
      const late = AbortSignal.timeout(order.within_ms + LATE_MS)
      try {
        worker.postMessage(order)
        const [answer] = (await once(worker, 'message', { signal: AbortSignal.any([signal, late]) })) as [SearchAnswer]
        idle.push(worker)
        if ('result' in answer) return answer.result
        throw new BlobError(answer.trouble.kind, answer.trouble.digest)
      } catch (error) {
        if (!(error instanceof BlobError)) await worker.terminate() // the thread may be stuck in one line
        if (late.aborted && !signal.aborted)
          return { matches: [], truncated: true, stop_reason: 'time_limit', files_scanned: 0, next_cursor: null }
        throw error
      }
    },
  }
}
