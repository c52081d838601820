/** Calls one function in an interval and on demand. */
export interface Poller {
  /** Polls now, or again after a pass in progress. */
  poke(): void
  /** Resolves when no pass runs; none begins afterwards. */
  close(): Promise<void>
}

interface PollerOptions {
  every_ms: number
  /** One pass. `stopped` tells whether it should end early. */
  look(stopped: () => boolean): Promise<unknown>
  failed(error: unknown): void
}

/** Polls in an interval, one pass at a time, until it is closed. A failed pass is reported and does not stop the poller. */
export function startPoller({ every_ms, look, failed }: PollerOptions): Poller {
  let closed = false
  let working: Promise<unknown> | null = null
  let again = false
  const poke = () => {
    if (closed) return
    again = working !== null
    working ??= look(() => closed)
      .catch(failed)
      .finally(() => {
        working = null
        if (again) poke()
      })
  }
  const timer = setInterval(poke, every_ms)
  timer.unref()
  return {
    poke,
    async close() {
      closed = true
      clearInterval(timer)
      await working
    },
  }
}
