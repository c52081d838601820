import type { End, RecordedEvent } from './record.ts'

export interface Outcome {
  name: string
  /** Enclosing tests, outermost first. */
  within: string[]
  suite: boolean
  end: End
  ms: number
  /** The error with its stack, or the reason of a skip. */
  note: string
}

export interface Totals {
  tests: number
  suites: number
  pass: number
  fail: number
  cancelled: number
  skipped: number
  todo: number
}

/** A test that never ended is reported as `cancelled`. */
export function outcomesOf(noted: string): Outcome[] {
  const known = new Map<number, Outcome & { parent: number | null }>()
  for (const event of noted.split('\n').flatMap(parsed)) {
    if (event.event === 'known') {
      const { id, parent, name, suite } = event
      known.set(id, { parent, name, within: [], suite, end: 'cancelled', ms: 0, note: 'it had not ended when its process did' })
    } else if (event.event === 'ended') {
      const { end, ms, note } = event
      Object.assign(known.get(event.id) ?? {}, { end, ms, note })
    }
  }
  const below = Map.groupBy(known, ([, { parent }]) => (parent !== null && known.has(parent) ? parent : null))
  const ordered = (parent: number | null, within: string[]): Outcome[] =>
    (below.get(parent) ?? []).flatMap(([id, { parent: _, ...outcome }]) => [
      { ...outcome, within },
      ...ordered(id, [...within, outcome.name]),
    ])
  return ordered(null, [])
}

export function saidIn(noted: string): string[] {
  return noted
    .split('\n')
    .flatMap(parsed)
    .flatMap((event) => (event.event === 'said' ? [event.message] : []))
}

/** Counts as node:test does: suites separately, and the parent of a failed test as a failure. */
export function totalsOf(outcomes: readonly Outcome[]): Totals {
  const tests = outcomes.filter(({ suite }) => !suite)
  const count = (...ends: End[]) => tests.filter(({ end }) => ends.includes(end)).length
  return {
    tests: tests.length,
    suites: outcomes.length - tests.length,
    pass: count('passed'),
    fail: count('failed', 'follows'),
    cancelled: count('cancelled'),
    skipped: count('skipped'),
    todo: count('todo'),
  }
}

/** A suite counts if its `before` failed. */
export function hasFailed(outcomes: readonly Outcome[]): boolean {
  return outcomes.some(({ end }) => ['failed', 'follows', 'cancelled'].includes(end))
}

/** Only failures that do not follow from others. */
export function failuresOf(outcomes: readonly Outcome[]): Outcome[] {
  const own = outcomes.filter(({ end }) => end === 'failed')
  return own.length > 0 ? own : outcomes.filter(({ end }) => end === 'cancelled' || end === 'follows')
}

/** A killed process may leave a partly written line. */
function parsed(line: string): RecordedEvent[] {
  try {
    return line === '' ? [] : [JSON.parse(line) as RecordedEvent]
  } catch {
    return []
  }
}
