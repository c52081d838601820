import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ceilingsOf } from './ceilings.ts'
import { noteGap } from '../../../tests/support/idle-gaps.ts'
import type { IdleGaps } from './idle-gaps.ts'
import { commandBusyUntil, fixedSeconds, idleRetryAt, idleRule, nextIdleEnd, pendingSuspend, type IdleFacts } from './idle.ts'
import { resolveInputs } from './inputs.ts'

const at = (seconds: number) => new Date(Date.UTC(2030, 0, 1) + seconds * 1000)
const facts: IdleFacts = {
  lifetime: 'persistent',
  idle_policy: null,
  template_defaults: {},
  active_at: at(0),
  tool_call_at: null,
  busy_until: null,
  keepalive_until: null,
  suspend_requested_at: null,
  suspend_after_seconds: null,
  suspend_not_before: null,
  idle_gaps: null,
  idle_failures: 0,
  idle_retry_at: null,
}
const endAt = (given: IdleFacts) => nextIdleEnd(given)?.at ?? null
const asked = { suspend_requested_at: at(10), suspend_after_seconds: 60, suspend_not_before: at(70) }

test("the workspace's idle policy overrides its template's, which overrides adaptive; a session has its own", () => {
  assert.deepEqual(idleRule(facts), { policy: 'adaptive', timeout_seconds: 300, basis: 'default' })
  const template = { ...facts, template_defaults: { idle_policy: 'fixed:90', session_idle_seconds: 120 } }
  assert.deepEqual(idleRule(template), { policy: 'fixed:90', timeout_seconds: 90, basis: 'fixed' })
  assert.deepEqual(idleRule({ ...template, idle_policy: 'never' }), { policy: 'never', timeout_seconds: null, basis: 'never' })
  assert.deepEqual(idleRule({ ...template, lifetime: 'session' }), { policy: 'fixed:120', timeout_seconds: 120, basis: 'session' })
  assert.deepEqual(['fixed:59', 'fixed:60', 'fixed:604800', 'fixed:604801', 'fixed:1e3'].map(fixedSeconds), [null, 60, 604_800, null, null])
})

test('a suspend request only shortens the wait, a command or keepalive postpones it, a later tool call cancels it', () => {
  assert.deepEqual(endAt(facts), at(300))
  assert.deepEqual(endAt({ ...facts, ...asked }), at(70))
  assert.deepEqual(endAt({ ...facts, ...asked, suspend_after_seconds: 3600, suspend_not_before: at(3610) }), at(300))
  assert.deepEqual(endAt({ ...facts, ...asked, busy_until: at(100) }), at(160))
  assert.deepEqual(endAt({ ...facts, ...asked, keepalive_until: at(500) }), at(560))
  assert.equal(pendingSuspend({ ...facts, ...asked, tool_call_at: at(11) }), null)
  assert.notEqual(pendingSuspend({ ...facts, ...asked, tool_call_at: at(10) }), null)
  assert.equal(endAt({ ...facts, idle_policy: 'never' }), null)
  assert.deepEqual(endAt({ ...facts, idle_policy: 'never', ...asked }), at(70))
})

test('the earlier of policy and suspend request ends the run', () => {
  const cause = (given: Partial<IdleFacts>) => nextIdleEnd({ ...facts, ...asked, ...given })?.by
  assert.equal(cause({}), 'request')
  assert.equal(cause({ suspend_after_seconds: 300, suspend_not_before: at(310) }), 'policy')
  assert.equal(cause({ suspend_after_seconds: 3000, suspend_not_before: at(3010), keepalive_until: at(3600) }), 'policy')
  assert.equal(cause({ idle_policy: 'fixed:60', active_at: at(10) }), 'request')
  assert.equal(cause({ tool_call_at: at(11), active_at: at(11) }), 'policy')
})

test('only the adaptive policy uses the learned timeout', () => {
  const idle_gaps = Array.from({ length: 20 }).reduce<IdleGaps | null>((seen) => noteGap(seen, 86_400), null)
  assert.deepEqual(idleRule({ ...facts, idle_gaps }), { policy: 'adaptive', timeout_seconds: 10, basis: 'learned' })
  assert.deepEqual(endAt({ ...facts, idle_gaps }), at(10))
  assert.equal(idleRule({ ...facts, idle_gaps, idle_policy: 'fixed:90' }).basis, 'fixed')
  assert.equal(idleRule({ ...facts, idle_gaps, lifetime: 'session' }).timeout_seconds, 600)
})

test('after failures the policy backs off from a minute to six hours; a request does not wait', () => {
  const waits = [1, 2, 3, 9, 10, 50].map((failures) => (idleRetryAt(failures, at(0)).getTime() - at(0).getTime()) / 1000)
  assert.deepEqual(waits, [60, 120, 240, 15_360, 21_600, 21_600])
  assert.deepEqual(endAt({ ...facts, idle_retry_at: at(299) }), at(300))
  assert.deepEqual(endAt({ ...facts, idle_retry_at: at(900) }), at(900))
  assert.deepEqual(endAt({ ...facts, ...asked, idle_retry_at: at(900) }), at(70))
})

test('a reported command counts for an hour per report, and at most the longest time limit after the last activity', () => {
  const until = (said: number, now: number) => (commandBusyUntil(at(said), facts, at(now)).getTime() - at(0).getTime()) / 1000
  assert.deepEqual([until(50, 10), until(9000, 10), until(9e9, 80_000), until(9e9, 85_000)], [50, 3610, 83_600, 86_400])
})

test('ceilings are the least of template, cap and plan, with the default size where there is no cap', () => {
  const template = {
    ceiling: { cpu_millis: 4000, memory_mib: 4096, disk_gib: 20 },
    defaults: { cpu_millis: 1000, memory_mib: 1024, disk_gib: 10 },
  }
  const plan = { cpu_millis: null, memory_mib: 2048, disk_gib: 5 }
  assert.deepEqual(ceilingsOf({ template, caps: { cpu_millis: 9000, memory_mib: 9000 }, plan }), {
    cpu_millis: 4000,
    memory_mib: 2048,
    disk_gib: 5,
  })
  assert.deepEqual(ceilingsOf({ template, caps: {}, plan }), { cpu_millis: 1000, memory_mib: 1024, disk_gib: 5 })
  const { ceiling } = template
  const one_number = { ceiling, defaults: ceiling }
  const no_limits = { cpu_millis: null, memory_mib: null, disk_gib: null }
  assert.deepEqual(ceilingsOf({ template: one_number, caps: {}, plan: no_limits }), ceiling)
})

test('inputs are the given values over the declared defaults, and inherited properties are never declared', () => {
  const declared = { A: {}, B: { default: 'b' }, C: { required: true } }
  assert.deepEqual(resolveInputs(declared, { C: '' }), { B: 'b', C: '' })
  assert.deepEqual(resolveInputs(declared, { A: 'a', B: 'x', C: 'c' }), { A: 'a', B: 'x', C: 'c' })
  const refused = (given: Record<string, unknown>) => {
    try {
      resolveInputs(declared, given)
    } catch (error) {
      const { reason, options } = error as { reason: string; options: { details: { names: string[] } } }
      return [reason, options.details.names]
    }
    return null
  }
  assert.deepEqual(refused(JSON.parse('{"toString":"x","__proto__":"y","D":1}') as Record<string, unknown>), [
    'input_unknown',
    ['D', '__proto__', 'toString'],
  ])
  assert.deepEqual(refused({ A: '\0', B: 1, C: 'x'.repeat(4096) }), ['input_invalid', ['A', 'B']])
  assert.deepEqual(refused({ C: 'x'.repeat(4097) }), ['input_invalid', ['C']])
  assert.deepEqual(refused({}), ['input_required', ['C']])
  assert.deepEqual(refused({ [`\0\n${'é'.repeat(197)}😀`]: '' }), ['input_unknown', [`\ufffd\n${'é'.repeat(197)}\ufffd`]])
  const many = Object.fromEntries(Array.from({ length: 101 }, (_, n) => [`N${1000 + n}`, '']))
  assert.deepEqual(refused(many), ['input_unknown', Object.keys(many).slice(0, 100)])
})
