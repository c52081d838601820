import assert from 'node:assert/strict'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, test } from 'node:test'
import { runningEntry } from '../../../tests/gateway/support/fake-table.ts'
import { queryActivity, probeLiveness } from './activity-query.ts'
import type { LiveMachine } from '../host/live-machine.ts'

let answers: (response: ServerResponse) => void
const guest = createServer((_request, response) => answers(response))
let machine: LiveMachine
before(async () => {
  await new Promise<void>((resolve) => guest.listen(0, '127.0.0.1', resolve))
  const { machine: running } = runningEntry('w', 'c', `127.0.0.1:${(guest.address() as AddressInfo).port}`).entry
  assert.ok(running)
  machine = running
})
after(() => {
  guest.closeAllConnections()
  guest.close()
})

const NOTHING_RUNS = { running: 0, busy_until: null, last_ended_at: null, commands: [] }

test('an invalid answer means that no command runs and that the guest lives', async () => {
  const rubbish = ['', 'no JSON', 'null', '7', '[]', '{"running_sessions":"many"}', `{"running_sessions":1,"x":"${'y'.repeat(20_000)}"}`]
  for (const said of rubbish) {
    answers = (response) => response.end(said)
    assert.deepEqual([await queryActivity(machine), await probeLiveness(machine)], [NOTHING_RUNS, true], said.slice(0, 40))
  }
  answers = (response) => response.end('{"running_sessions":2,"last_ended_at":"2026-01-01T00:00:00.000Z"}')
  assert.deepEqual(await queryActivity(machine), { ...NOTHING_RUNS, running: 2, last_ended_at: new Date('2026-01-01T00:00:00.000Z') })
})

test('an answer that breaks off is no answer: whether commands run is unknown', async () => {
  answers = (response) => {
    response.writeHead(200, { 'content-length': 100 })
    response.write('{"running_sessions":0', () => response.destroy())
  }
  assert.deepEqual([await queryActivity(machine), await probeLiveness(machine)], [null, false])
  answers = (response) => void response.destroy()
  assert.equal(await queryActivity(machine), null)
})
