import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sql } from 'kysely'
import pino from 'pino'
import { sample } from '../../service/cell/metering/sampler.ts'
import { HostFailure } from '../../service/cell/host/hostd.ts'
import { type Answer, seeder } from '../api/support.ts'
import { worldWithCell, type CellWorld } from '../api/with-cell.ts'
import { until } from '../support/processes.ts'
import type { Callers, Repeat } from './fixture.ts'

export interface Populated {
  w: CellWorld
  callers: Callers
  repeats: Repeat[]
  service_secret: Buffer
}

const SETTINGS = {
  env: { LANG: 'C.UTF-8' },
  inputs: { CITY: {} },
  defaults: { cpu_millis: 1000, memory_mib: 512, disk_gib: 10 },
  ceiling: { cpu_millis: 4000, memory_mib: 8192, disk_gib: 50 },
}
const path = (id: string, verb: string) => `/v1/workspaces/${id}/${verb}`

/** With every state of workspaces and operations. */
export async function populate(): Promise<Populated> {
  const w = await worldWithCell({ capacity: { cpu_millis: 100_000, memory_mib: 100_000, disk_gib: 10_000 } })
  const callers = await people(w)
  const at_rest = await settled(w)
  const repeats = await repeated(w, callers)
  await sampled(w)
  await underWay(w, at_rest)
  return { w, callers, repeats, service_secret: await readFile(join(w.keys_dir, 'service-secret')) }
}

async function people(w: CellWorld): Promise<Callers> {
  const seeds = seeder(w.database, w.clock, w.ids)
  const limited = await seeds.plan('limited', { concurrent_workspaces: 3, memory_mib: 4096 })
  const missing = await seeds.plan('missing', { memory_mib: 2048, missing_limits: ['concurrent_workspaces', 'cpu_millis', 'disk_gib'] })
  const [c, d, e] = [await seeds.tenant('c', limited), await seeds.tenant('d', limited), await seeds.tenant('e', missing)]
  const standing = {
    allowance_exhausted: 'allowance_used',
    allowance: JSON.stringify({ exhausted: [], resets_at: w.clock.now(), spend_cap: null }),
  } as const
  await w.database.superuser.updateTable('organizations').set(standing).where('id', '=', c.organization_id).execute()
  const past_due = { refuses_starts: 'payment_past_due', grace_until: w.clock.now() } as const
  await w.database.superuser.updateTable('organizations').set(past_due).where('id', '=', d.organization_id).execute()
  const owner = await seeds.person(w.a.organization_id, 'owner')
  const billing = await seeds.person(w.b.organization_id, 'billing', { email_verified: false })
  await seeds.template(w.a.organization_id, 'own', SETTINGS, false)
  await w.database.superuser.updateTable('templates').set({ archived_at: w.clock.now() }).where('slug', '=', 'own').execute()
  const ended = await seeds.key(w.b.organization_id, w.b.project_id)
  await w.database.superuser.updateTable('api_keys').set({ revoked_at: w.clock.now() }).where('id', '=', ended.key_row_id).execute()
  return {
    a: w.a.key,
    a2: w.a2.key,
    b: w.b.key,
    c: c.key,
    d: d.key,
    e: e.key,
    owner: owner.token,
    billing: billing.token,
    ended: ended.key,
  }
}

async function settled(w: CellWorld): Promise<string[]> {
  const running = await w.ready('running', { inputs: { CITY: 'Oslo' } })
  for (const agent_label of ['one', 'two']) accepted(await w.post(path(running, 'tool-tokens'), { agent_label }))
  accepted(await w.post(path(running, 'suspend-when-idle'), { after_seconds: 3600 }))
  accepted(await w.call('PUT', path(running, 'idle-policy'), { body: { idle_policy: 'fixed:7200' } }))
  const suspended = await w.ready('suspended')
  const snapshots = [await done(w, suspended, 'snapshot', { label: 'kept' }), await done(w, suspended, 'snapshot', { label: 'deleted' })]
  accepted(await w.call('DELETE', path(suspended, `checkpoints/${snapshots[1]?.result.checkpoint_id}`)))
  await done(w, suspended, 'suspend')
  await done(w, suspended, 'resume')
  await done(w, suspended, 'suspend')
  await hibernate(w, await w.ready('hibernated'))
  await failed(w)
  const reset = await w.ready('reset')
  await done(w, reset, 'reset', { confirm_destructive: true })
  await done(w, running, 'fork', { key: 'fork' })
  const session = await w.ready('session', { lifetime: 'session' })
  await w.ended(accepted(await w.post(path(session, 'close'))).id)
  await w.ready('open-session', { lifetime: 'session' })
  const gone = await w.ready('deleted')
  await w.ended(accepted(await w.call('DELETE', `/v1/workspaces/${gone}`)).id)
  await canceled(w)
  await w.ready('of-another-project', {}, { as: w.a2.key })
  const others = ['one', 'two', 'three', 'four', 'five', 'six'].map((name) => w.ready(`under-way-${name}`, {}, { as: w.b.key }))
  return Promise.all(others)
}

function accepted({ status, body }: Answer): Answer['body'] {
  if (status >= 300) throw new Error(`${status} ${JSON.stringify(body)}`)
  return body
}

async function done(w: CellWorld, id: string, verb: string, body?: object) {
  const answer = accepted(await w.post(path(id, verb), body))
  const operation = await w.ended((answer.operation ?? answer).id)
  if (operation.state !== 'succeeded') throw new Error(`${verb} ended as ${JSON.stringify(operation.error)}`)
  return operation
}

async function hibernate(w: CellWorld, id: string): Promise<void> {
  const entry = await w.table.fresh(id)
  if (!entry?.machine) throw new Error('only what has a machine is hibernated')
  await w.parking.hibernate(entry)
}

async function failed(w: CellWorld): Promise<void> {
  const id = await w.ready('failed')
  {
    using _ = w.host.intercept('checkpoint', 'before', () => {
      throw new HostFailure('internal', 'The disk is full', { retryable: false })
    })
    await w.ended(accepted(await w.post(path(id, 'suspend'))).id)
  }
  w.host.kill(id, 'out_of_memory')
  await until('the workspace has failed', 60_000, async () => (await w.get(`/v1/workspaces/${id}`)).body.observed_state === 'failed')
}

async function canceled(w: CellWorld): Promise<void> {
  const id = await w.ready('canceled')
  const reached = Promise.withResolvers<void>()
  const gate = Promise.withResolvers<void>()
  using _ = w.host.intercept('checkpoint', 'before', () => {
    reached.resolve()
    return gate.promise
  })
  const suspend = await w.post(path(id, 'suspend'))
  await reached.promise
  const deleted = await w.call('DELETE', `/v1/workspaces/${id}`)
  gate.resolve()
  const { state } = await w.ended(suspend.body.id)
  if (state !== 'canceled') throw new Error(`the suspend ended as ${state}`)
  await w.ended(deleted.body.id)
}

async function repeated(w: CellWorld, callers: Callers): Promise<Repeat[]> {
  const id = await w.ready('repeated')
  const start = ['/v1/workspaces/open', { key: 'refused', template: 'base' }] as const
  const requests: [as: string, path: string, body: object][] = [
    ['a', path(id, 'snapshot'), { label: 'repeated' }],
    ['a', path(id, 'resume'), {}],
    ...['c', 'd', 'e'].map((as): [string, string, object] => [as, ...start]),
  ]
  const repeats: Repeat[] = []
  for (const [as, to, body] of requests) {
    const key = `upgrade-${repeats.length}`
    const given = { as: callers[as] ?? '', headers: { 'idempotency-key': key } }
    const first = await w.post(to, body, given)
    if (first.status < 300) await w.ended(first.body.id)
    const { status, body: answer } = await w.post(to, body, given)
    repeats.push({ as, path: to, body, key, status, answer })
  }
  return repeats
}

async function sampled(w: CellWorld): Promise<void> {
  const context = { cell_id: w.cell_id, db: w.database.cell, clock: w.clock, host: w.host, log: pino({ level: 'silent' }) }
  await sample(context)
  w.advance(10)
  await sample(context)
}

async function underWay(w: CellWorld, ids: string[]): Promise<void> {
  const cell_id = await seeder(w.database, w.clock, w.ids).cell('away')
  const now = w.clock.now()
  const states = [
    { kind: 'suspend', state: 'queued', observed_state: 'running', desired_state: 'suspended' },
    { kind: 'suspend', state: 'running', observed_state: 'suspending', desired_state: 'suspended' },
    { kind: 'resume', state: 'capacity_pending', observed_state: 'suspended', desired_state: 'running', state_reason: 'no_ready_host' },
    { kind: 'resume', state: 'running', observed_state: 'resuming', desired_state: 'running' },
    { kind: 'open', state: 'running', observed_state: 'starting', desired_state: 'running' },
    { kind: 'delete', state: 'running', observed_state: 'deleting', desired_state: 'deleted', deleted_at: now },
  ] as const
  await w.database.superuser.transaction().execute(async (tx) => {
    for (const [n, { kind, state, ...given }] of states.entries()) {
      const { observed_state, desired_state } = given
      const [state_reason, deleted_at] = ['state_reason' in given ? given.state_reason : null, 'deleted_at' in given ? now : null]
      const { id, organization_id, project_id } = await tx
        .updateTable('workspaces')
        .set({ cell_id, observed_state, desired_state, deleted_at, pending_reason: state_reason })
        .where('id', '=', ids[n] ?? '')
        .returning(['id', 'organization_id', 'project_id'])
        .executeTakeFirstOrThrow()
      const operation_id = w.ids.next()
      const runs = state === 'running'
      const common = { organization_id, project_id, workspace_id: id, cell_id, created_at: now, updated_at: now, completed_at: null }
      await tx
        .insertInto('operations')
        .values({
          ...common,
          id: operation_id,
          kind,
          state,
          state_reason,
          started_at: runs ? now : null,
          attempt: runs ? 1 : 0,
          step: runs ? 'begun' : null,
        })
        .execute()
      await tx.insertInto('workspace_holds').values({ workspace_id: id, operation_id, gate: 'closed' }).execute()
      await sql`update operations set fence = nextval('fences') where id = ${operation_id} and attempt > 0`.execute(tx)
    }
  })
}
