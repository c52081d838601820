// The reporter (`--test-reporter`) of every test file. It writes each event to a file at once, so events survive a kill, and are separate
// from the tests' output.
import { closeSync, openSync, writeSync } from 'node:fs'
import { inspect } from 'node:util'
import type { TestEvent } from 'node:test/reporters'

export const EVENTS_VARIABLE = 'BERTH_TEST_EVENTS'

/** A line of JSON. */
export type RecordedEvent =
  | { event: 'known'; id: number; parent: number | null; name: string; suite: boolean }
  | { event: 'ended'; id: number; end: End; ms: number; note: string }
  | { event: 'said'; message: string }

/** `follows`: a test within this one failed. `cancelled`: interrupted, or not run after too many failures. */
export type End = 'passed' | 'failed' | 'follows' | 'cancelled' | 'skipped' | 'todo'

export default async function* record(events: AsyncIterable<TestEvent>): AsyncGenerator<string, void> {
  const file = openSync(process.env[EVENTS_VARIABLE] ?? '/dev/null', 'a')
  for await (const event of events) {
    const told = recordedOf(event)
    if (told !== undefined) writeSync(file, `${JSON.stringify(told)}\n`)
  }
  closeSync(file)
  yield ''
}

const CLOSING_LINE = /^(tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) [\d.]+$/

function recordedOf({ type, data }: TestEvent): RecordedEvent | undefined {
  if (type === 'test:enqueue') {
    return { event: 'known', id: data.testId, parent: data.parentId ?? null, name: data.name, suite: data.type === 'suite' }
  }
  if (type === 'test:diagnostic') return CLOSING_LINE.test(data.message) ? undefined : { event: 'said', message: data.message }
  if (type !== 'test:complete') return undefined
  const { passed, duration_ms, error } = data.details
  const ended = { event: 'ended' as const, id: data.testId, ms: duration_ms }
  if (data.skip !== undefined && data.skip !== false) return { ...ended, end: 'skipped', note: data.skip === true ? '' : data.skip }
  if (data.todo !== undefined && data.todo !== false) return { ...ended, end: 'todo', note: data.todo === true ? '' : data.todo }
  if (passed) return { ...ended, end: 'passed', note: '' }
  return { ...ended, ...failureOf(error) }
}

const ENDS: Partial<Record<string, End>> = {
  subtestsFailed: 'follows',
  cancelledByParent: 'cancelled',
  testAborted: 'cancelled',
}

function failureOf(error: Error | undefined): { end: End; note: string } {
  const { failureType = '', cause } = (error ?? {}) as { failureType?: string; cause?: unknown }
  const end = isNotRun(cause) ? 'cancelled' : (ENDS[failureType] ?? 'failed')
  return { end, note: inspect(cause ?? error, { depth: 6, maxArrayLength: 100, maxStringLength: 20_000 }) }
}

/** Marks tests that are skipped after too many failures in their file. */
export const NOT_RUN = 'ERR_BERTH_NOT_RUN'

function isNotRun(error: unknown): boolean {
  for (let each = error, depth = 0; each instanceof Error && depth < 5; each = each.cause, depth += 1)
    if ('code' in each && each.code === NOT_RUN) return true
  return false
}
