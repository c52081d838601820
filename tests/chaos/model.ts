/** What a file may hold: at least the last number that was acknowledged, at most the last that was tried. */
export interface Bounds {
  floor: number
  ceiling: number
}

export type Place = 'disk' | 'memory'
export type Content = Record<Place, Map<string, Bounds>>

/** A workspace as its clients believe it to be. */
export interface Believed {
  key: string
  id: string
  endpoint: string
  token: string
  epoch: number
  content: Content
  snapshots: Map<string, Content>
  /** How often its machine was killed: memory is lost then, and only then. */
  deaths: number
  lock: Lock
}

export function emptyContent(): Content {
  return { disk: new Map(), memory: new Map() }
}

export function boundsOf(content: Content, place: Place, name: string): Bounds {
  const known = content[place].get(name)
  if (known) return known
  const made = { floor: 0, ceiling: 0 }
  content[place].set(name, made)
  return made
}

export function copyOf(content: Content): Content {
  const copy = (map: Map<string, Bounds>) => new Map([...map].map(([name, bounds]) => [name, { ...bounds }]))
  return { disk: copy(content.disk), memory: copy(content.memory) }
}

/** What a capture may hold that began with `before` and ended with `after`. */
export function between(before: Content, after: Content): Content {
  const span = (from: Map<string, Bounds>, to: Map<string, Bounds>) =>
    new Map([...to].map(([name, { ceiling }]) => [name, { floor: from.get(name)?.floor ?? 0, ceiling }]))
  return { disk: span(before.disk, after.disk), memory: span(before.memory, after.memory) }
}

/** Memory of a machine that ended: whatever was in it may be gone, or come back with an older checkpoint. */
export function forgetMemory(content: Content): void {
  for (const bounds of content.memory.values()) bounds.floor = 0
}

/** Many may work on a workspace at once; whoever replaces its content is alone. */
export class Lock {
  private shared = 0
  private tail: Promise<void> = Promise.resolve()
  private idle: PromiseWithResolvers<void> | null = null

  async together<T>(work: () => Promise<T>): Promise<T> {
    await this.tail
    this.shared += 1
    try {
      return await work()
    } finally {
      this.shared -= 1
      if (this.shared === 0) this.idle?.resolve()
    }
  }

  async alone<T>(work: () => Promise<T>): Promise<T> {
    const before = this.tail
    const { promise, resolve } = Promise.withResolvers<void>()
    this.tail = promise
    await before
    try {
      if (this.shared > 0) {
        this.idle = Promise.withResolvers<void>()
        await this.idle.promise
        this.idle = null
      }
      return await work()
    } finally {
      resolve()
    }
  }
}
