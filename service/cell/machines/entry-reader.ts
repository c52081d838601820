const RETRY_MS = 500

/** Reads rows in batches: whoever asks while a query is under way shares the next one, since that query may be too old already. */
export interface EntryReader {
  /** Resolves when a query that began after this call has been taken in. */
  read(id: string): Promise<void>
  /** Reads until it succeeds: a change was told of, and what is kept must not stay older than that. */
  keepFresh(ids: string[]): void
  /** Resolves when what was told to be kept fresh before this call is. */
  settled(): Promise<void>
  /** How long something has been known to be stale. */
  staleMs(): number
  close(): void
}

interface Batch {
  ids: Set<string>
  done: PromiseWithResolvers<void>
}

export function createEntryReader(query: (ids: string[]) => Promise<void>): EntryReader {
  const queue: Batch[] = [] // none, or the one that is next
  let running = false
  let closed = false
  let retry: NodeJS.Timeout | undefined
  const stale = new Map<string, number>() // id -> since when, monotonic; the oldest first

  const run = async () => {
    running = true
    // One turn of the event loop gathers all that came with the same packet of notifications.
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
