import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'
import { patience, patiently, slowness, SLOWNESS_VARIABLE } from '../support/patience.ts'
import { slownessOf, takenBetween, watchWeather } from './weather.ts'

const folder = mkdtempSync(path.join(tmpdir(), 'berth-weather-'))
after(() => rmSync(folder, { recursive: true }))

test('other work is the processor time that this run did not use', () => {
  const from = { at_ms: 1000, all_ms: 500, own_ms: 300 }
  assert.equal(takenBetween(from, { at_ms: 2000, all_ms: 2500, own_ms: 800 }, 2), 0.75)
  assert.equal(takenBetween(from, { at_ms: 2000, all_ms: 1000, own_ms: 800 }, 2), 0)
  assert.equal(takenBetween(from, { at_ms: 2000, all_ms: 9000, own_ms: 100 }, 2), 1)
})

test('half the speed and half the processors make it four times slower, and no bound gets shorter', () => {
  assert.equal(slownessOf(1, 0), 1)
  assert.equal(slownessOf(2, 0), 1)
  assert.equal(slownessOf(0.5, 0.5), 4)
  assert.equal(slownessOf(0.5, 1), 20)
})

test('the file holds the slowness from the start, and bounds of tests follow it', async () => {
  const file = path.join(folder, 'slowness')
  const weather = watchWeather(file, { look: () => ({ all_ms: 0, own_ms: 0 }), measure: () => 0.25 })
  try {
    assert.equal(readFileSync(file, 'utf8'), '4.00')
    const before = process.env[SLOWNESS_VARIABLE]
    process.env[SLOWNESS_VARIABLE] = file
    try {
      await new Promise((resolve) => setTimeout(resolve, 1100)) // the factor is read once a second
      assert.deepEqual([slowness(), patience(1000)], [4, 4000])
      const goesOn = patiently(50)
      await new Promise((resolve) => setTimeout(resolve, 100))
      assert.equal(goesOn(), true)
      writeFileSync(file, '1')
      await new Promise((resolve) => setTimeout(resolve, 1100))
      assert.deepEqual([slowness(), goesOn()], [1, false])
    } finally {
      if (before === undefined) Reflect.deleteProperty(process.env, SLOWNESS_VARIABLE)
      else process.env[SLOWNESS_VARIABLE] = before
    }
  } finally {
    weather.close()
  }
})
