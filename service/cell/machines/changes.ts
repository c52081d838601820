import type { Change } from './table.ts'

/** Tells those who wait for the next change of something that it has come. */
export interface Changes {
  next(id: string): Change
  tell(id: string): void
  /** Somebody waits. */
  awaited(id: string): boolean
}

export function createChanges(): Changes {
  const waiting = new Map<string, Set<() => void>>()
  return {
    next(id) {
      const { promise, resolve } = Promise.withResolvers<void>()
      const others = waiting.get(id) ?? new Set()
      waiting.set(id, others.add(resolve))
      return {
        promise,
        [Symbol.dispose]() {
          others.delete(resolve)
          if (others.size === 0 && waiting.get(id) === others) waiting.delete(id)
        },
      }
    },
    tell(id) {
      const told = waiting.get(id)
      waiting.delete(id)
      for (const resolve of told ?? []) resolve()
    },
    awaited: (id) => waiting.has(id),
  }
}
