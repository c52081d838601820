import assert from 'node:assert/strict'
import { EventEmitter, once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { AGENT_PROTOCOLS } from '../../../contract/internal/agent.ts'
import type { Machine } from '../../../contract/internal/host-inventory.ts'
import { followToEnd } from '../filetree/executions/output.ts'
import { UNLIMITED_BUDGET } from './buffer-budget.ts'
import { createGuestLinks } from './guest-links.ts'

const [BEFORE, AT, LATER] = ['2026-01-01T00:00:01.000Z', '2026-01-01T00:00:02.000Z', '2026-01-01T00:00:03.000Z']
const bounds = () => ({ signal: new AbortController().signal, room: UNLIMITED_BUDGET })
const gone = { kind: 'unreachable', message: 'The machine has ended' }

/** A machine whose server counts calls, and answers only with the head of a stream. */
async function machineAt() {
  const called = new EventEmitter()
  let calls = 0
  const server = createServer((_request, response) => {
    calls += 1
    response.writeHead(200, { 'content-type': 'application/octet-stream' }).flushHeaders()
    called.emit('call')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const subject = { kind: 'build', id: '0198c0de-0000-7000-8000-000000000001' } as const
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`
  const machine = { subject, fence: 7, address, agent_key: 'key', epoch: 1, agent_protocol: AGENT_PROTOCOLS.current, started_at: BEFORE }
  return {
    machine: machine as Machine,
    calls: () => calls,
    async asked(times: number) {
      while (calls < times) await once(called, 'call')
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

test('a followed command is lost when its machine dies, and the next machine at the address gets no call', async () => {
  await using at = await machineAt()
  const guests = createGuestLinks()
  const { link } = guests.open(at.machine)
  const followed = assert.rejects(followToEnd(link, 'step', 100, bounds()), gone)
  await at.asked(1)
  const before = at.calls()
  guests.died({ ...at.machine, at: AT })
  await followed
  await assert.rejects(link.getExec('step', bounds()), gone)
  assert.equal(at.calls(), before)
})

test('an early death report ends the link that is opened later, but not that of the next machine of the attempt', async () => {
  await using at = await machineAt()
  const guests = createGuestLinks()
  guests.died({ ...at.machine, at: AT })
  await assert.rejects(guests.open(at.machine).link.getExec('step', bounds()), gone)
  const next = guests.open({ ...at.machine, started_at: LATER })
  void next.link.getExec('step', bounds()).catch(() => undefined)
  await at.asked(1)
  next.close()
})

test('a comparison ends links to machines that the host lacks, but none that was opened after it began', async () => {
  await using at = await machineAt()
  const guests = createGuestLinks()
  const [old, other] = [guests.open(at.machine), guests.open({ ...at.machine, fence: 8 })]
  const compare = guests.comparing()
  const young = guests.open({ ...at.machine, started_at: LATER })
  compare([{ ...at.machine, fence: 8 }])
  await assert.rejects(old.link.getExec('step', bounds()), gone)
  for (const { link } of [other, young]) void link.getExec('step', bounds()).catch(() => undefined)
  await at.asked(2)
  other.close()
  young.close()
})
