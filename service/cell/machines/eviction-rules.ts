import { isWanted, type ResidencyFacts } from './residency-rules.ts'

export interface EvictionFacts extends ResidencyFacts {
  id: string
  organization_id: string
  memory_mib: number
  moving: boolean
  /** The engine refuses its memory: hibernated, it could not be woken again. */
  refused: boolean
  /** No eviction before this time: the last query found running commands, or saving its memory failed. */
  not_before: Date | null
  retried_at: Date | null
}

export const EVICTIONS_MAX = 4

/**
 * Machines used more recently are not evicted. Otherwise machines in use would evict each other, and none would make progress.
 * With this limit a computer with capacity for six machines serves four calls a second on hibernated workspaces.
 */
export const YOUNG_SECONDS = 1
const QUIET_SECONDS = 1

type Evictability = 'now' | 'soon' | 'no'

interface Verdict {
  evictability: Evictability
  reason: string
}

/** `soon`: the machine may be evicted within seconds, if it stays unused. */
export function evictability(facts: EvictionFacts, now: Date): Evictability {
  return judge(facts, now).evictability
}

export function judge(facts: EvictionFacts, now: Date): Verdict {
  const verdict = verdictOf(facts, now)
  if (verdict.evictability !== 'now' || facts.retried_at === null || facts.retried_at <= now) return verdict
  return soon('its last save came to nothing for a passing reason')
}

const no = (reason: string): Verdict => ({ evictability: 'no', reason })
const soon = (reason: string): Verdict => ({ evictability: 'soon', reason })
const at_once = (reason: string): Verdict => ({ evictability: 'now', reason })

function verdictOf(facts: EvictionFacts, now: Date): Verdict {
  const { state, held, moving, refused, not_before, used_at, busy_at } = facts
  if (state === 'paused') return no('paused')
  if (held) return no('an operation holds it')
  if (moving) return no('it is being moved')
  if (refused) return no('its engine is refused')
  if (facts.memory_mib <= 0) return no('it has no grant of memory')
  if (isWanted(facts, now)) return no('a caller uses it')
  if (not_before !== null && not_before > now) return no('its commands ran, or its memory could not be written')
  if (!isOfAge(facts, now)) return soon('it was used just now')
  if (state === 'frozen') return at_once('frozen')
  // The next samples show whether the machine is idle. A machine with measured activity is no candidate until its activity ends.
  if (busy_at === null) return soon('it was not looked at yet')
  if (secondsSince(busy_at, now) >= QUIET_SECONDS) return at_once('quiet')
  if (secondsSince(used_at, now) < YOUNG_SECONDS + LOOKS_SECONDS) return soon('it was at work just now, and was used just now')
  return no('it is at work')
}

export function isOfAge({ used_at }: Pick<EvictionFacts, 'used_at'>, now: Date): boolean {
  return secondsSince(used_at, now) >= YOUNG_SECONDS
}

const LOOKS_SECONDS = 3

/**
 * The longest unused first. The age is multiplied by the organization's share of the memory.
 * @returns the fewest that release enough memory, or all candidates.
 */
export function victims(facts: readonly EvictionFacts[], needed_mib: number, now: Date): EvictionFacts[] {
  const all = facts.map((facts) => ({ ...facts, size: facts.memory_mib, facts }))
  const candidates = all.filter((one) => evictability(one, now) === 'now')
  return longestUnused(candidates, all, needed_mib, now).map(({ facts }) => facts)
}

interface Holder {
  id: string
  organization_id: string
  used_at: Date
  size: number
}

/** @param all the holders from which the organizations' shares are computed. */
export function longestUnused<H extends Holder>(candidates: readonly H[], all: readonly Holder[], needed: number, now: Date): H[] {
  if (needed <= 0) return []
  const shareOf = sharesOf(all)
  const age = (one: H) => secondsSince(one.used_at, now) * (1 + shareOf(one.organization_id))
  const ordered = candidates.toSorted((a, b) => age(b) - age(a) || a.size - b.size || (a.id < b.id ? -1 : 1))
  const chosen: H[] = []
  let sum = 0
  for (const one of ordered) {
    if (sum >= needed) break
    chosen.push(one)
    sum += one.size
  }
  for (const one of chosen.toReversed()) {
    if (sum - one.size < needed) continue
    chosen.splice(chosen.indexOf(one), 1)
    sum -= one.size
  }
  return chosen
}

function sharesOf(all: readonly Holder[]): (organization_id: string) => number {
  const sums = new Map<string, number>()
  for (const { organization_id, size } of all) sums.set(organization_id, (sums.get(organization_id) ?? 0) + size)
  const total = all.reduce((sum, { size }) => sum + size, 0)
  return (organization_id) => (sums.get(organization_id) ?? 0) / Math.max(total, 1)
}

function secondsSince(date: Date, now: Date): number {
  return (now.getTime() - date.getTime()) / 1000
}
