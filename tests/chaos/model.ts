/** The stored number is at least the last acknowledged one, and at most the last attempted one. */
export interface Bounds {
  floor: number
  ceiling: number
}

export interface Witness {
  name: string
  pid: number
  floor: number
  /** Highest possible count at `at_ms`. A timer never fires early, so the count grows by at most one a tick. */
  ceiling: number
  at_ms: number
}

export type StorageKind = 'disk' | 'memory'
export interface Content extends Record<StorageKind, Map<string, Bounds>> {
  /** null: no witness, or an unknown one */
  witness: Witness | null
}

export interface Believed {
  key: string
  id: string
  endpoint: string
  token: string
  epoch: number
  content: Content
  snapshots: Map<string, Content>
  /** Kills of this workspace's machine, which alone lose its memory. */
  deaths: number
  lock: Lock
  /** Clients do not use it until then, so that it can be parked. */
  quiet_until_ms?: number
}

export const TICK_MS = 1000

export function newBelieved(key: string): Believed {
  return { key, id: '', endpoint: '', token: '', epoch: 0, content: emptyContent(), snapshots: new Map(), deaths: 0, lock: new Lock() }
}

export function emptyContent(): Content {
  return { disk: new Map(), memory: new Map(), witness: null }
}

export function boundsOf(content: Content, place: StorageKind, name: string): Bounds {
  const known = content[place].get(name)
  if (known) return known
  const made = { floor: 0, ceiling: 0 }
  content[place].set(name, made)
  return made
}

export function copyOf(content: Content): Content {
  const copy = (map: Map<string, Bounds>) => new Map([...map].map(([name, bounds]) => [name, { ...bounds }]))
  return { disk: copy(content.disk), memory: copy(content.memory), witness: content.witness && { ...content.witness } }
}

export function ceilingOf({ ceiling, at_ms }: Witness): number {
  return ceiling + Math.ceil((performance.now() - at_ms) / TICK_MS)
}

export function between(before: Content, after: Content): Content {
  const span = (from: Map<string, Bounds>, to: Map<string, Bounds>) =>
    new Map([...to].map(([name, { ceiling }]) => [name, { floor: from.get(name)?.floor ?? 0, ceiling }]))
  const [one, other] = [before.witness, after.witness]
  const same = one !== null && other !== null && one.name === other.name
  const witness = same ? { ...one, ceiling: ceilingOf(other), at_ms: performance.now() } : null
  return { disk: span(before.disk, after.disk), memory: span(before.memory, after.memory), witness }
}

/** The witness has not counted since its capture, so it continues from there. */
export function wokenAt(captured: Content, at_ms: number): Content {
  const content = copyOf(captured)
  if (content.witness !== null) content.witness.at_ms = at_ms
  return content
}

/** Call after a machine's end: its memory may be gone, or may be restored from an older checkpoint. */
export function forgetMemory(content: Content): void {
  for (const bounds of content.memory.values()) bounds.floor = 0
  content.witness = null
}

/** Work on a workspace takes the lock shared; replacing its content takes it exclusively. */
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
