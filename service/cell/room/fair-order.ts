/** Somebody who waits for room. */
export interface Waiter {
  /** Of the operation, or of the workspace that is to be woken: its place in the list. */
  id: string
  organization_id: string
  /** All that the machine takes of the memory. */
  memory_mib: number
  disk_gib: number
  since: Date
  /** Whether a call waits for it. It comes before the operations of its own organization, and before nobody else's. */
  is_call: boolean
}

/** How much of its turn each organization has had. */
export interface Turns {
  /** Where the turn of the next one begins that has not waited yet. */
  now_mib: number
  /** Where the next turn begins of those that have had more than others. */
  next_mib: ReadonlyMap<string, number>
}

export const NO_TURNS: Turns = { now_mib: 0, next_mib: new Map() }

/**
 * Those that wait in the order in which they are given room: organizations take turns by the memory that they get, so that one that
 * asks for two hundred machines keeps nobody else waiting for longer than its own first. Pure.
 */
export function fairOrder<W extends Waiter>(waiting: readonly W[], turns: Turns): W[] {
  const queues = new Map<string, W[]>()
  for (const waiter of [...waiting].sort(inOwnOrder)) {
    const queue = queues.get(waiter.organization_id)
    if (queue === undefined) queues.set(waiter.organization_id, [waiter])
    else queue.push(waiter)
  }
  const [only] = queues.values()
  if (queues.size === 1 && only !== undefined) return only
  const placed = [...queues.values()].flatMap((queue) => {
    let at_mib = 0
    return queue.map((waiter, index) => {
      at_mib = index === 0 ? turnOf(turns, waiter) : at_mib
      const place = { waiter, at_mib }
      at_mib += waiter.memory_mib
      return place
    })
  })
  return placed.sort((a, b) => a.at_mib - b.at_mib || inOwnOrder(a.waiter, b.waiter)).map(({ waiter }) => waiter)
}

/** The turns after this one was given its room. */
export function afterTurn(turns: Turns, given: Pick<Waiter, 'organization_id' | 'memory_mib'>): Turns {
  const now_mib = turnOf(turns, given)
  const ahead = [...turns.next_mib].filter(([, next_mib]) => next_mib > now_mib)
  return { now_mib, next_mib: new Map([...ahead, [given.organization_id, now_mib + given.memory_mib]]) }
}

function turnOf({ now_mib, next_mib }: Turns, { organization_id }: Pick<Waiter, 'organization_id'>): number {
  return Math.max(now_mib, next_mib.get(organization_id) ?? 0)
}

function inOwnOrder(a: Waiter, b: Waiter): number {
  return Number(b.is_call) - Number(a.is_call) || a.since.getTime() - b.since.getTime() || (a.id < b.id ? -1 : 1)
}
