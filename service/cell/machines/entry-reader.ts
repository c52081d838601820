const RETRY_MS = 500

/** A caller during a running query waits for the next one: the running query may have read before the caller's change. */
export interface EntryReader {
  /** The query begins after this call, so it reads every earlier commit. */
  read(id: string): Promise<void>
  /** Retries the read until it succeeds. */
  keepFresh(ids: string[]): void
  /** Resolves when all entries that were stale before this call are fresh. */
  settled(): Promise<void>
  staleMs(): number
  close(): void
}

interface Batch {
  ids: Set<string>
  done: PromiseWithResolvers<void>
}

export function createEntryReader(query: (ids: string[]) => Promise<void>): EntryReader {
  const queue: Batch[] = [] // holds at most one batch
  let running = false
  let closed = false
  let retry: NodeJS.Timeout | undefined
  const stale = new Map<string, number>() // id -> stale since (monotonic), oldest first

  const run = async () => {
    running = true
    // All notifications of one packet share one query.
    await new Promise((resolve) => setImmediate(resolve))
    for (let batch = queue.shift(); batch !== undefined && !closed; batch = queue.shift()) {
      try {
        await query([...batch.ids])
        for (const id of batch.ids) if (queue[0]?.ids.has(id) !== true) stale.delete(id)
        batch.done.resolve()
      } catch (error) {
        batch.done.reject(error)
      }
    }
    running = false
  }
  const ask = (ids: Iterable<string>): Promise<void> => {
    const next = queue[0] ?? { ids: new Set(), done: Promise.withResolvers() }
    if (queue.length === 0) queue.push(next)
    for (const id of ids) next.ids.add(id)
    if (!running) void run()
    return next.done.promise
  }
  const keepFresh = (ids: string[]) => {
    if (ids.length === 0 || closed) return
    for (const id of ids) if (!stale.has(id)) stale.set(id, performance.now())
    ask(ids).catch(() => {
      clearTimeout(retry)
      retry = setTimeout(() => keepFresh([...stale.keys()]), RETRY_MS)
      retry.unref()
    })
  }
  return {
    read: (id) => ask([id]),
    keepFresh,
    settled: () => (stale.size === 0 ? Promise.resolve() : ask(stale.keys())),
    staleMs() {
      const [oldest] = stale.values()
      return oldest === undefined ? 0 : performance.now() - oldest
    },
    close() {
      closed = true
      clearTimeout(retry)
      for (const { done } of queue) done.reject(new Error('The table of machines is closed'))
    },
  }
}
