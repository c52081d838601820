/** A request that waits for capacity. */
export interface QueuedRequest {
  /** The operation, or the workspace to wake. */
  id: string
  organization_id: string
  /** The machine's memory grant, without headroom. */
  memory_mib: number
  disk_gib: number
  since: Date
  /** True if a call waits for the request. It precedes operations of its own organization, but no request of another. */
  is_call: boolean
}

/** The position of each organization in the fair-share order, counted in MiB granted. */
export interface FairShares {
  /** Start position of an organization that has not waited yet. */
  now_mib: number
  /** Position of the next request of each organization that is ahead of `now_mib`. */
  next_mib: ReadonlyMap<string, number>
}

export const NO_SHARES: FairShares = { now_mib: 0, next_mib: new Map() }

/**
 * Orders requests by fair share: organizations alternate by the memory they get. A new organization waits for at most one request
 * of another that asked for two hundred machines. Pure.
 */
export function fairOrder<W extends QueuedRequest>(waiting: readonly W[], turns: FairShares): W[] {
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

export function afterGrant(turns: FairShares, given: Pick<QueuedRequest, 'organization_id' | 'memory_mib'>): FairShares {
  const now_mib = turnOf(turns, given)
  const ahead = [...turns.next_mib].filter(([, next_mib]) => next_mib > now_mib)
  return { now_mib, next_mib: new Map([...ahead, [given.organization_id, now_mib + given.memory_mib]]) }
}

function turnOf({ now_mib, next_mib }: FairShares, { organization_id }: Pick<QueuedRequest, 'organization_id'>): number {
  return Math.max(now_mib, next_mib.get(organization_id) ?? 0)
}

function inOwnOrder(a: QueuedRequest, b: QueuedRequest): number {
  return Number(b.is_call) - Number(a.is_call) || a.since.getTime() - b.since.getTime() || (a.id < b.id ? -1 : 1)
}
