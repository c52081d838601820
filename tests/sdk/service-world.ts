import { once } from 'node:events'
import pino from 'pino'
import { AGENT_PROTOCOLS } from '../../contract/internal/agent.ts'
import { createExecutions } from '../../service/cell/filetree/executions/executions.ts'
import { startGateway } from '../../service/cell/tool-server.ts'
import { createAgentLinks, openLink } from '../../service/cell/host/agent.ts'
import { queryActivity } from '../../service/cell/machines/activity-query.ts'
import type { LiveMachine } from '../../service/cell/host/live-machine.ts'
import { createCapacityAllocator } from '../../service/cell/capacity/allocator.ts'
import { cellChannels, openListener } from '../../service/db/listen.ts'
import { Berth } from '../../sdk/typescript/src/main.ts'
import { type CellWorld, worldWithCell } from '../api/with-cell.ts'
import { FakeAgent, type FakeSession } from '../gateway/support/fake-agent.ts'
import { inUse } from '../gateway/support/fake-table.ts'
import { openCuttingProxy } from '../support/cutting-proxy.ts'

const CELL = 'http://one.cell.test'

/** A service without machines: api and gateway over HTTP, PostgreSQL, and a cell that runs its operations. */
export interface ServiceWorld extends AsyncDisposable {
  world: CellWorld
  agent: FakeAgent
  cut: Berth
  cuts(): number
  calm: Berth
  play: (session: FakeSession) => void
}

export async function openServiceWorld(): Promise<ServiceWorld> {
  const world = await worldWithCell({}, { file_first: true })
  const agent = await FakeAgent.start()
  const listener = await openListener(world.database.options('berth_cell'), cellChannels(world.cell_id))
  const links = createAgentLinks()
  const there = { address: agent.address, agent_key: 'agent-key', agent_protocol: AGENT_PROTOCOLS.current }
  const machine = (live: LiveMachine): LiveMachine => ({ ...live, ...there })
  const { cell_id, clock, ids, trees, host, table, parking } = world
  const db = world.database.cell
  const log = pino({ level: 'silent' })
  const executions = createExecutions({
    ...{ cell_id, db, clock, ids, host, trees, log, room: createCapacityAllocator({ db, cell_id }) },
    openLink: () => openLink({ ...there, epoch: 1 }),
  })
  const gateway = await startGateway({
    ...{ table, host, trees, executions, db, listener, clock, ids, log, cell_id, endpoint: CELL, issuer: 'http://api.test' },
    listen: { host: '127.0.0.1', port: 0 },
    agents: { ...links, of: (id, live, gone) => links.of(id, machine(live), gone), greet: () => undefined },
    waking: parking,
    showResidency: inUse,
    ask_activity: queryActivity,
    secrets: {
      valuesFor: () => Promise.resolve({ values: {}, authority: null }),
      valueForGit: () => Promise.reject(new Error('no secrets here')),
      authorityForGit: () => Promise.resolve(null),
      trust: { bring: () => Promise.resolve(false) },
    },
    validate_answers: true,
    drain_ms: 300,
  })
  const bytes_max = 250_000
  const [api_proxy, cell_proxy] = await Promise.all(
    [world.base, gateway.address].map((url) => openCuttingProxy(url, { bytes_max, seed: 7 })),
  )
  if (!api_proxy || !cell_proxy) throw new Error('there is a proxy for each')
  const through =
    (cell: string): typeof fetch =>
    (input, init) =>
      fetch((input as string).replace(CELL, cell), init)
  const made: ServiceWorld = {
    world,
    agent,
    cut: new Berth({ url: api_proxy.url, apiKey: world.a.key, fetch: through(cell_proxy.url) }),
    cuts: () => api_proxy.cuts() + cell_proxy.cuts(),
    calm: new Berth({ url: world.base, apiKey: world.a.key, fetch: through(gateway.address) }),
    play: (session) => session.exit(0),
    async [Symbol.asyncDispose]() {
      for (const proxy of [api_proxy, cell_proxy]) proxy.close()
      await agent[Symbol.asyncDispose]()
      await gateway.close()
      links.close()
      await listener.close()
      await world[Symbol.asyncDispose]()
    },
  }
  agent.follows = true
  agent.play = (session) => made.play(session)
  return made
}

export async function endOf(session: FakeSession): Promise<void> {
  while (session.record['state'] === 'running') await once(session, 'change')
}
