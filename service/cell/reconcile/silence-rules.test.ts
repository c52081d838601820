import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isHung, nextSilence, type Silence, type SilentLook } from './silence-rules.ts'

const LOOK_MS = 2000
const after = (looks: number, used_share: number, more: Partial<SilentLook> = {}) => {
  let silence: Silence | undefined
  for (let n = 0; n < looks; n += 1) {
    const look = { cpu_usec: n * LOOK_MS * 1000 * used_share, looked_ms: n * LOOK_MS, cpu_millis: 1000, spare_share: 0.5, ...more }
    silence = nextSilence(silence, look)
  }
  assert.ok(silence)
  return isHung(silence)
}

const CASES: [fact: string, used_share: number, more: Partial<SilentLook>, looks: number][] = [
  ['one that stands still hangs', 0, { spare_share: 0, cpu_millis: null }, 3],
  ['one that works a little hangs: its agent could have run', 0.49, {}, 3],
  ['one that uses what it may is slow', 0.5, {}, 30],
  ['one that uses half of two processors is slow', 1, { cpu_millis: 2000 }, 30],
  ['one that works a little where nothing is spare is slow', 0.1, { spare_share: 0.24 }, 30],
  ['one that works, and may use nobody knows what, is slow', 0.1, { cpu_millis: null }, 30],
]

for (const [fact, used_share, more, looks] of CASES)
  test(`silent: ${fact}, after ${looks} looks`, () => {
    assert.deepEqual([after(looks - 1, used_share, more), after(looks, used_share, more)], [false, true])
  })

test('silent: probes of a hindered machine neither count nor reset the count', () => {
  const look = (n: number, spare_share: number) => ({ cpu_usec: n * 100_000, looked_ms: n * LOOK_MS, cpu_millis: 1000, spare_share })
  const shares = [1, 1, 0, 0, 0, 1]
  const hung = shares.map((_, end) => {
    const silence = shares.slice(0, end + 1).reduce<Silence | undefined>((last, share, n) => nextSilence(last, look(n, share)), undefined)
    return silence !== undefined && isHung(silence)
  })
  assert.deepEqual(hung, [false, false, false, false, false, true])
})
