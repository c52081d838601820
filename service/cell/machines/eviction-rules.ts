import { isWanted, type ResidencyFacts } from './residency-rules.ts'

/** All that it depends on whether a machine is hibernated because somebody waits for its room. */
export interface EvictionFacts extends ResidencyFacts {
  id: string
  organization_id: string
  /** What it gives back. */
  memory_mib: number
  /** It is being moved already. */
  moving: boolean
  /** Hibernated, it could not be woken again. */
  refused: boolean
  /** Commands ran in it when it was last asked, and it is asked again then; its memory could not be written, and is tried again then. */
  not_before: Date | null
  /** It did not leave for a reason that passes, and is tried again then. */
  retried_at: Date | null
}

/** How many are saved at once for those who wait. */
export const EVICTIONS_MAX = 4

/**
 * Who was used less than this ago stays: else machines that are all in use would push each other out, and none would get anything done.
 * A computer with room for six serves four calls a second on sleepers so.
 */
export const YOUNG_SECONDS = 1
/** One that is not frozen is quiet when it used neither processor nor network for this long. */
const QUIET_SECONDS = 1

type Evictability = 'now' | 'soon' | 'no'

interface Verdict {
  evictability: Evictability
  /** For failures and logs. */
  reason: string
}

/** Whether it may be hibernated now, within seconds if nobody comes, or not. Pure. */
export function evictability(facts: EvictionFacts, now: Date): Evictability {
  return judge(facts, now).evictability
}

/** The same, with the fact that decided it. Pure. */
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
  // Not looked at yet: the next looks say whether it is quiet. One that was seen at work is no candidate until it rests.
  if (busy_at === null) return soon('it was not looked at yet')
  if (secondsSince(busy_at, now) >= QUIET_SECONDS) return at_once('quiet')
  if (secondsSince(used_at, now) < YOUNG_SECONDS + LOOKS_SECONDS) return soon('it was at work just now, and was used just now')
  return no('it is at work')
}

export function isOfAge({ used_at }: Pick<EvictionFacts, 'used_at'>, now: Date): boolean {
  return secondsSince(used_at, now) >= YOUNG_SECONDS
}

/** In which a machine that nobody uses any more has been looked at twice. */
const LOOKS_SECONDS = 3

/**
 * Who gives way to those who wait: the longest unused first, where an organization that has more of the memory counts as unused for
 * longer; of these the fewest that suffice, and where two are alike the smaller. Where all together do not suffice, all. Pure.
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
  /** What it gives back of the resource that is short. */
  size: number
}

/** The order of `victims`, for any resource. @param all those that the shares of the organizations are measured by. Pure. */
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

/** The part of all that is held that each organization has, 0 to 1. */
function sharesOf(all: readonly Holder[]): (organization_id: string) => number {
  const sums = new Map<string, number>()
  for (const { organization_id, size } of all) sums.set(organization_id, (sums.get(organization_id) ?? 0) + size)
  const total = all.reduce((sum, { size }) => sum + size, 0)
  return (organization_id) => (sums.get(organization_id) ?? 0) / Math.max(total, 1)
}

function secondsSince(date: Date, now: Date): number {
  return (now.getTime() - date.getTime()) / 1000
}
