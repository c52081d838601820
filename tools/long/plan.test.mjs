import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { CLONE } from '../setup/packages.mjs'
import { longParts } from './parts.mjs'
import { chosenParts, runParts, tableOf } from './plan.mjs'

const part = (name, script) => ({ name, adds: '', command: ['--eval', script], env: {} })
const run = (parts, signal = new AbortController().signal) => runParts(parts, { cwd: CLONE, log: () => undefined, signal })

test('words choose parts of the long run, and a word that names none is refused with those that there are', () => {
  const parts = longParts(7)
  assert.deepEqual(chosenParts(parts, []), parts)
  assert.deepEqual(
    chosenParts(parts, ['chaos', 'race']).map(({ name }) => name),
    ['race', 'chaos'],
  )
  assert.throws(() => chosenParts(parts, ['rice']), /rice is no part.*suite, race/)
})

test('every part is a program that is there, and all of them start from the one seed', () => {
  for (const { command, env } of longParts(7)) {
    assert.ok(existsSync(join(CLONE, command[0])), command[0])
    assert.deepEqual([env.BERTH_TEST_LONG, env.BERTH_TEST_SEED], ['1', '7'])
  }
})

test('a part that fails does not keep the next one from running', async () => {
  const results = await run([part('a', 'process.exit(3)'), part('b', ''), part('c', 'process.kill(process.pid, "SIGKILL")')])
  assert.deepEqual(
    results.map(({ name, ended_as }) => [name, ended_as]),
    [
      ['a', 3],
      ['b', 0],
      ['c', 'SIGKILL'],
    ],
  )
  assert.match(tableOf(results), /^a +0\.0 min {2}FAILED \(3\)\nb +0\.0 min {2}passed\nc +0\.0 min {2}FAILED \(SIGKILL\)\n$/)
})

test('after an interruption nothing more is begun, and the table says so', async () => {
  const end = new AbortController()
  end.abort()
  assert.match(tableOf(await run([part('a', 'process.exit(3)')], end.signal)), /^a +0\.0 min {2}NOT RUN\n$/)
})
