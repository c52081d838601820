/** Seconds without use; 0: never. */
export interface ParkAfter {
  freeze_after_seconds: number
  hibernate_after_seconds: number
}

/** A later parking time for background work that uses neither processor nor network. */
export interface Background {
  seconds: number
  by: 'workspace' | 'template'
}

/** Parks never sooner than the cell's times, with the same time between freeze and hibernation. */
export function parkAfterOf(cell: ParkAfter, background: Background | null): ParkAfter & { by: Background['by'] | 'cell' } {
  const { freeze_after_seconds: freeze, hibernate_after_seconds: hibernate } = cell
  const first = firstSeconds(cell)
  if (background === null || first === 0 || background.seconds <= first) return { ...cell, by: 'cell' }
  const later = (seconds: number) => (seconds === 0 ? 0 : seconds + background.seconds - first)
  return { freeze_after_seconds: later(freeze), hibernate_after_seconds: later(hibernate), by: background.by }
}

export function firstSeconds({ freeze_after_seconds, hibernate_after_seconds }: ParkAfter): number {
  return freeze_after_seconds > 0 ? freeze_after_seconds : hibernate_after_seconds
}

export interface ResidencyFacts {
  state: 'running' | 'paused' | 'frozen'
  held: boolean
  in_use: boolean
  keepalive_until: Date | null
  hinted_until: Date | null
  used_at: Date
  /** null: not sampled yet. */
  busy_at: Date | null
}

/** watch: the counters must be sampled, since the machine may soon be parked. */
export type ResidencyStep = 'keep' | 'thaw' | 'watch' | 'freeze' | 'hibernate'

/** Cell, "Parking". Before the caller parks the machine, it must ask the guest for running commands. */
export function residencyStep(facts: ResidencyFacts, after: ParkAfter, now: Date): ResidencyStep {
  if (facts.state === 'paused' || facts.held) return 'keep'
  if (isWanted(facts, now)) return facts.state === 'frozen' ? 'thaw' : 'keep'
  const unused_seconds = secondsSince(facts.used_at, now)
  if (facts.state === 'frozen') return isOver(after.hibernate_after_seconds, unused_seconds) ? 'hibernate' : 'keep'
  if (after.freeze_after_seconds === 0 && after.hibernate_after_seconds === 0) return 'keep'
  if (facts.busy_at === null) return 'watch'
  const quiet_seconds = Math.min(unused_seconds, secondsSince(facts.busy_at, now))
  if (isOver(after.freeze_after_seconds, quiet_seconds)) return 'freeze'
  return isOver(after.hibernate_after_seconds, quiet_seconds) ? 'hibernate' : 'watch'
}

export function isWanted({ in_use, keepalive_until, hinted_until }: ResidencyFacts, now: Date): boolean {
  return in_use || isAhead(keepalive_until, now) || isAhead(hinted_until, now)
}

function isAhead(date: Date | null, now: Date): boolean {
  return date !== null && date > now
}

function isOver(limit_seconds: number, seconds: number): boolean {
  return limit_seconds > 0 && seconds >= limit_seconds
}

function secondsSince(date: Date, now: Date): number {
  return (now.getTime() - date.getTime()) / 1000
}

export interface Kept {
  reason: 'operation' | 'use' | 'keepalive' | 'wake_hint' | 'command' | 'busy' | 'recent' | 'never_parked'
  park_at: Date | null
}

/** Reports the first reason that applies, in the order of residencyStep. */
export function keptBy(facts: ResidencyFacts, commands_run: boolean, after: ParkAfter, now: Date): Kept {
  const kept = (reason: Kept['reason']): Kept => ({ reason, park_at: null })
  if (facts.state === 'paused' || facts.held) return kept('operation')
  if (facts.in_use) return kept('use')
  if (isAhead(facts.keepalive_until, now)) return kept('keepalive')
  if (isAhead(facts.hinted_until, now)) return kept('wake_hint')
  const first_seconds = firstSeconds(after)
  if (first_seconds === 0) return kept('never_parked')
  if (commands_run) return kept('command')
  const { used_at, busy_at } = facts
  const is_busy = busy_at === null || busy_at > used_at
  const quiet_since = is_busy ? (busy_at ?? now) : used_at
  return { reason: is_busy ? 'busy' : 'recent', park_at: new Date(quiet_since.getTime() + first_seconds * 1000) }
}

export interface Counters {
  cpu_usec: number
  rx_bytes: number
  tx_bytes: number
  /** Counted before the counters were read. */
  questions_ended: number
  /** Counted after the counters were read. */
  questions_begun: number
}

/** Processor share of an idle guest. Measured: 0.02 of a slow processor, for its engine and its memory guard. */
const IDLE_CPU_SHARE = 0.06
/** Traffic of one query of this process with its connection (measured: 650 in and 700 out). */
const QUESTION_BYTES = 850
const QUESTION_CPU_USEC = 5000
/** Allowance for the last packets of a query's connection (measured 132 each way, up to a second later), and for address resolution. */
const IDLE_BYTES_PER_SECOND = 200

export function wasBusy(before: Counters, after: Counters, elapsed_ms: number): boolean {
  // A query under way at a sample is deducted in both spans.
  const asked = after.questions_begun - before.questions_ended
  const idle_cpu_usec = elapsed_ms * 1000 * IDLE_CPU_SHARE + asked * QUESTION_CPU_USEC
  const idle_bytes = (elapsed_ms / 1000) * IDLE_BYTES_PER_SECOND + asked * QUESTION_BYTES
  return (
    after.cpu_usec - before.cpu_usec > idle_cpu_usec ||
    after.rx_bytes - before.rx_bytes > idle_bytes ||
    after.tx_bytes - before.tx_bytes > idle_bytes
  )
}
