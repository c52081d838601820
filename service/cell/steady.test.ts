import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import pino from 'pino'
import { startResultExpiry } from './filetree/executions/forget.ts'
import { startCollectingLayers } from './operations/layers/collect.ts'
import { startExpiry } from './reconcile/expiry.ts'
import { startTreeCollector } from './filetree/trees/collect.ts'

const REMOVERS = { startExpiry, startForgetting: startResultExpiry, startCollectingLayers, startCollecting: startTreeCollector }

for (const [name, start] of Object.entries(REMOVERS)) {
  test(`${name} removes nothing while the clock is set forward by days`, async () => {
    let asked = 0
    const anything = new Proxy(
      {},
      {
        get() {
          asked += 1
          throw new Error('it was asked')
        },
      },
    )
    const at = { wall_ms: 1e12, monotonic_ms: 0 }
    const clock = { now: () => new Date(at.wall_ms), monotonic_ms: () => at.monotonic_ms }
    const context = {
      cell_id: '',
      db: anything,
      host: anything,
      trees: anything,
      clock,
      log: pino({ level: 'silent' }),
      quarantine_days: 7,
    }
    mock.timers.enable({ apis: ['setInterval'] })
    const ends = new AbortController()
    try {
      start(context as never, ends.signal)
      const tick = async () => {
        asked = 0
        mock.timers.tick(10 * 60_000)
        await new Promise(setImmediate)
        return asked > 0
      }
      assert.equal(await tick(), true)
      at.wall_ms += 10 * 24 * 3600_000
      assert.equal(await tick(), false)
      at.wall_ms -= 10 * 24 * 3600_000
      assert.equal(await tick(), true)
    } finally {
      ends.abort()
      mock.timers.reset()
    }
  })
}
