/** Something that looks for work every now and then. */
export interface Looking {
  /** There may be some: look at once, or once more where a look is under way. */
  poke(): void
  /** Resolves when no look is under way, and none begins any more. */
  close(): Promise<void>
}

interface Look {
  every_ms: number
  /** One look. It may ask meanwhile whether it is to stop. */
  look(stopped: () => boolean): Promise<unknown>
  failed(error: unknown): void
}

/** Looks again and again, one look at a time, until it is closed. A look that fails is told of, and the next one comes all the same. */
export function lookRegularly({ every_ms, look, failed }: Look): Looking {
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
