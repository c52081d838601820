// Needs its own installation: the tests kill and stop its processes.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { openMarkers } from '../chaos/arm.ts'
import { runCase } from '../chaos/case.ts'
import { checkRest } from '../chaos/check.ts'
import { openHistory } from '../chaos/history.ts'
import { PARK_SOON } from '../chaos/parking.ts'
import { labelOf, type Mode, type Point } from '../chaos/points.ts'
import { havingTheirTurn, rotation } from '../chaos/rotation.ts'
import { startService, type Service } from '../support/service.ts'

const folder = mkdtempSync(path.join(tmpdir(), 'berth-parking-'))
const markers = openMarkers()
const history = openHistory(path.join(folder, 'history.jsonl'))
let service: Service

// `npm run failpoints` runs every point in every mode.
const CASES: Record<'hibernate' | 'wake', [name: string, owner: Point['owner'], mode: Mode, ended: RegExp, fact: string][]> = {
  hibernate: [
    ['hibernate.H2', 'cell', 'kill', /^ok/, 'the guest that was saved runs on'],
    ['hibernate.H3', 'cell', 'kill', /^ok/, 'it sleeps, and the next call wakes it'],
    ['checkpoint.save', 'hostd', 'stop', /^ok/, 'whoever asked for it is gone when it goes on'],
  ],
  wake: [
    ['wake.W3', 'cell', 'kill', /^ok/, 'it is restored anew, once'],
    ['restore.restore', 'hostd', 'throw', /^ok, written, wake_failed$/, 'the call is refused with wake_failed, and the next one wakes it'],
  ],
}

before(async () => {
  process.stdout.write(`BERTH_TEST_ROTATION=${rotation}\n`)
  service = await startService({ failpoints: markers.spec('kill'), settings: { slot_memory_mib: 512, ...PARK_SOON } })
})
after(async () => {
  await service.stop()
  markers.close()
  rmSync(folder, { recursive: true, force: true })
})

for (const kind of ['hibernate', 'wake'] as const)
  for (const [name, owner, mode, ended, fact] of havingTheirTurn(CASES[kind])) {
    const point: Point = { name, owner, kind }
    test(`${mode} before ${labelOf(point)}: ${fact}`, async () => {
      assert.match(await runCase({ service, markers, history, stop_ms: 1000 }, point, mode), ended)
    })
  }

test('afterwards rows, host and files agree', async () => {
  await checkRest(service, history)
  assert.deepEqual(history.violations, [])
})
