import type { Channel, Listener } from '../../db/listen.ts'

export interface PrincipalCache<Standing> {
  of(id: string): Promise<Standing> | Standing
  close(): void
}

const STANDINGS_MAX = 10_000

export function openPrincipalCache<Standing>(
  listener: Pick<Listener, 'on'>,
  channel: Channel,
  ask: (id: string) => Promise<Standing>,
): PrincipalCache<Standing> {
  const known = new Map<string, { standing: Standing }>()
  const reading = new Map<string, Promise<Standing>>()

  const read = (id: string) => {
    const started = ask(id)
    reading.set(id, started)
    const settle = (found: { standing: Standing } | undefined) => {
      if (reading.get(id) !== started) return // announced a change during the read: the result may be outdated
      reading.delete(id)
      if (found !== undefined) remember(known, id, found)
    }
    started.then(
      (standing) => settle({ standing }),
      () => settle(undefined),
    )
    return started
  }
  const forget = (id: string | null) => {
    if (id === null) known.clear()
    else known.delete(id)
    if (id === null) reading.clear()
    else reading.delete(id)
  }
  const unsubscribe = listener.on(channel, forget)
  return {
    of(id) {
      const found = known.get(id)
      return found === undefined ? (reading.get(id) ?? read(id)) : found.standing
    },
    close: unsubscribe,
  }
}

function remember<Found>(known: Map<string, Found>, id: string, found: Found): void {
  known.set(id, found)
  if (known.size <= STANDINGS_MAX) return
  const [oldest] = known.keys()
  if (oldest !== undefined) known.delete(oldest)
}
