import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { EGRESS_DEFAULT } from '../../contract/internal/host-egress.ts'
import { acknowledge } from '../../service/cell/policies/egress/store.ts'
import { denialsCollector } from '../../service/cell/policies/egress/denials.ts'
import { HostFailure } from '../../service/cell/host/hostd.ts'
import { until } from '../support/processes.ts'
import { worldWithCell, type CellWorld } from './with-cell.ts'

let w: CellWorld
before(async () => {
  w = await worldWithCell({ capacity: { cpu_millis: 1_000_000, memory_mib: 1_000_000, disk_gib: 100_000 } })
})
after(() => w[Symbol.asyncDispose]())

const AT_ONCE_MS = 10_000
const path = (id: string) => `/v1/workspaces/${id}/egress-policy`
const allow = (...hosts: string[]) => ({ mode: 'allowlist', rules: hosts.map((host) => ({ host })) })
const put = (id: string, body: object) => w.call('PUT', path(id), { body })
const putProject = (body: object) => w.call('PUT', `/v1/projects/${w.a.project_id}/egress-policy`, { body })
const stateOf = async (id: string) => (await w.get(path(id))).body.enforcement.state
const hostsOf = (id: string) => w.host.egressOf(id)?.rules.map(({ host }) => host)
const becomes = (id: string, state: string) => until(`${id} is ${state}`, AT_ONCE_MS, async () => (await stateOf(id)) === state)
const timed = async (work: () => Promise<unknown>) => {
  const began = performance.now()
  await work()
  return performance.now() - began
}
const operate = async (id: string, verb: string) => {
  const { body } = await w.post(`/v1/workspaces/${id}/${verb}`)
  return w.ended((body.operation ?? body).id)
}
async function withProject(body: object, work: () => Promise<void>): Promise<void> {
  await putProject(body)
  try {
    await work()
  } finally {
    await putProject({ mode: 'allow_all' })
  }
}

test('a running workspace with open egress is enforced, and its host gets no policy', async () => {
  const id = await w.ready('default')
  assert.deepEqual([await stateOf(id), w.host.egressOf(id)], ['enforced', undefined])
})

test('start, resume and fork pass the policy to the host, which acknowledges it for each epoch', async () => {
  await withProject(allow('project.example'), async () => {
    const id = await w.ready('with-start')
    assert.deepEqual([await stateOf(id), hostsOf(id)], ['enforced', ['project.example']])
    await put(id, allow('own.example'))
    await operate(id, 'suspend')
    assert.equal(await stateOf(id), 'not_enforced')
    await put(id, allow('asleep.example'))
    assert.equal(await stateOf(id), 'not_enforced')
    await operate(id, 'resume')
    assert.deepEqual([await stateOf(id), hostsOf(id)], ['enforced', ['asleep.example']])
    const { body } = await w.post(`/v1/workspaces/${id}/fork`, { key: 'with-fork' })
    await w.ended(body.operation.id)
    assert.deepEqual([await stateOf(body.workspace.id), hostsOf(body.workspace.id)], ['enforced', ['asleep.example']])
    const verbs = w.host.done.filter(({ subject }) => subject.id === body.workspace.id).map(({ verb }) => verb)
    assert.ok(!verbs.includes('setEgress'), `nothing was left to be set afterwards: ${verbs.join(', ')}`)
  })
})

test('a reset and a restore in place also start with the policy', async () => {
  const id = await w.ready('replaced')
  await put(id, allow('own.example'))
  const snapshot = await operate(id, 'snapshot')
  for (const [verb, body] of [
    ['reset', { confirm_destructive: true }],
    ['restore', { checkpoint_id: snapshot.result.checkpoint_id }],
  ] as const) {
    const asked = await w.post(`/v1/workspaces/${id}/${verb}`, body)
    assert.equal((await w.ended(asked.body.id)).state, 'succeeded')
    assert.deepEqual([await stateOf(id), hostsOf(id)], ['enforced', ['own.example']], verb)
  }
})

test('a policy change of a workspace or its project reaches a running machine within a second', async () => {
  const id = await w.ready('changed')
  const took: number[] = []
  for (const host of ['one.example', 'two.example', 'three.example']) {
    await put(id, allow(host))
    took.push(await timed(() => until(`${host} is in force`, AT_ONCE_MS, async () => (await stateOf(id)) === 'enforced')))
    assert.deepEqual(hostsOf(id), [host])
  }
  await w.call('DELETE', path(id))
  await withProject({ mode: 'deny_all' }, async () => {
    took.push(await timed(() => becomes(id, 'enforced')))
    assert.equal(w.host.egressOf(id)?.mode, 'deny_all')
  })
  await until('all is let out again', AT_ONCE_MS, () => w.host.egressOf(id)?.mode === 'allow_all')
  assert.equal(w.host.egressOf(id)?.revision, EGRESS_DEFAULT)
  // The fastest counts: the computer also does other work.
  assert.ok(Math.min(...took) < 1000, took.join(', '))
})

test('fifty machines of a project have its new policy within seconds', async () => {
  const ids = await Promise.all(Array.from({ length: 50 }, (_, at) => w.ready(`fifty-${at}`)))
  await withProject(allow('fifty.example'), async () => {
    const took = await timed(() =>
      Promise.all(ids.map((id) => until('it is in force', AT_ONCE_MS, () => hostsOf(id)?.[0] === 'fifty.example'))),
    )
    assert.ok(took < 5000, `${took} ms`)
    await Promise.all(ids.map((id) => becomes(id, 'enforced')))
  })
})

test('a policy change during the start of a machine reaches it', async () => {
  const { promise: changed, resolve: change } = Promise.withResolvers<void>()
  const { promise: starting, resolve: starts } = Promise.withResolvers<void>()
  const opened = await (async () => {
    using _ = w.host.intercept('start', 'before', async () => {
      starts()
      await changed
    })
    const answer = await w.open('while-starting')
    await starting
    await put(answer.body.workspace.id, allow('later.example'))
    change()
    await w.ended(answer.body.operation.id)
    return answer
  })()
  const id = opened.body.workspace.id
  await becomes(id, 'enforced')
  assert.deepEqual(hostsOf(id), ['later.example'])
})

test('a policy change during an operation on the machine is applied next to it, and does not end the operation', async () => {
  const id = await w.ready('beside')
  const { promise: set, resolve: isSet } = Promise.withResolvers<void>()
  using _ = w.host.intercept('checkpoint', 'before', async ({ subject }) => {
    if (subject.id !== id) return
    await put(id, allow('beside.example'))
    await until('it is in force', AT_ONCE_MS, () => hostsOf(id)?.[0] === 'beside.example')
    isSet()
  })
  const ended = await operate(id, 'snapshot')
  await set
  assert.deepEqual([ended.state, await stateOf(id)], ['succeeded', 'enforced'])
})

test('a policy change for a hibernated machine is pending, and its wake applies it', async () => {
  const id = await w.ready('asleep')
  const entry = async () => (await w.table.fresh(id)) ?? assert.fail(id)
  await w.parking.hibernate(await entry())
  assert.deepEqual([(await entry()).residency, await stateOf(id)], ['hibernated', 'enforced'])
  await put(id, allow('awake.example'))
  assert.equal(await stateOf(id), 'pending')
  await w.parking.wake(await entry())
  assert.deepEqual([await stateOf(id), hostsOf(id)], ['enforced', ['awake.example']])
  assert.ok(!w.host.done.some(({ verb, subject }) => verb === 'setEgress' && subject.id === id))
})

test('a frozen machine gets a policy change at once, and stays frozen', async () => {
  const id = await w.ready('frozen')
  const entry = async () => (await w.table.fresh(id)) ?? assert.fail(id)
  // Repeated, because a freeze gives way to any use of the machine, such as the end of the open.
  await until('it is frozen', 30_000, async () => {
    await w.parking.freeze(await entry())
    return (await entry()).machine?.state === 'frozen'
  })
  await put(id, allow('frozen.example'))
  await becomes(id, 'enforced')
  assert.deepEqual([hostsOf(id), (await entry()).machine?.state], [['frozen.example'], 'frozen'])
  await w.parking.wake(await entry())
  assert.equal((await entry()).machine?.state, 'running')
})

test('a policy change is pending while the host is down, and is enforced when the host is back', async () => {
  const id = await w.ready('host-down')
  w.host.setReachable(false)
  try {
    await put(id, { mode: 'deny_all' })
    await becomes(id, 'pending')
  } finally {
    w.host.setReachable(true)
  }
  await becomes(id, 'enforced')
  assert.equal(w.host.egressOf(id)?.mode, 'deny_all')
})

test('a policy that the host refuses is failed, is tried again, and is enforced once the host accepts it', async () => {
  const id = await w.ready('refused')
  {
    using _ = w.host.intercept('setEgress', 'before', () => {
      throw new HostFailure('internal', 'The rules could not be written', { retryable: true })
    })
    await put(id, { mode: 'deny_all' })
    await becomes(id, 'failed')
  }
  await becomes(id, 'enforced')
})

test('a reconcile restores policy rules that were changed on the host', async () => {
  const id = await w.ready('broken')
  await put(id, allow('a.example'))
  await becomes(id, 'enforced')
  const sets = () => w.host.done.filter(({ verb, subject }) => verb === 'setEgress' && subject.id === id).length
  const before = sets()
  w.host.breakEgress(id)
  w.host.restart()
  await until('it was set again', AT_ONCE_MS * 2, () => sets() > before)
  await becomes(id, 'enforced')
})

test('an acknowledgement of an earlier epoch is ignored, before and after the one of this epoch', async () => {
  const id = await w.ready('late-word')
  const db = w.database.cell
  const said = async () => {
    const { epoch, revision } = await db.selectFrom('workspace_egress').selectAll().where('workspace_id', '=', id).executeTakeFirstOrThrow()
    return [epoch, revision]
  }
  await operate(id, 'suspend')
  await operate(id, 'resume')
  const now = await said()
  await acknowledge(db, { workspace_id: id, epoch: 1, fence: 1, revision: 'late', state: 'failed' }, w.clock.now())
  assert.deepEqual([await said(), await stateOf(id)], [now, 'enforced'])
  const fence = Number.MAX_SAFE_INTEGER
  await acknowledge(db, { workspace_id: id, epoch: 1, fence, revision: 'late', state: 'failed' }, w.clock.now())
  assert.deepEqual([await said(), await stateOf(id)], [now, 'enforced'])
})

test('refused connections are collected once per count, and none of machines with open egress', async () => {
  const id = await w.ready('denials')
  const open = await w.ready('denials-of-nobody')
  await put(id, { mode: 'deny_all' })
  await becomes(id, 'enforced')
  const at = w.clock.now().toISOString()
  const name = 'evil\u0000\u202e.example'
  const denial = { name: null, address: '9.9.9.9', port: 443, protocol: 'tcp' as const, count: 1, first_at: at, last_at: at }
  const asked = { name, address: null, port: 0, protocol: 'dns' as const, count: 4, first_at: at, last_at: at }
  const collect = denialsCollector({ ...w, db: w.database.cell, log: silent }, w.egress)
  for (const one of [id, open]) w.host.deny(one, [denial, asked])
  await collect()
  w.host.deny(id, [{ ...denial, count: 3, name: 'nine.example' }, asked])
  await collect()
  w.host.deny(id, [{ ...denial, count: 2, first_at: new Date(w.clock.now().getTime() + 1).toISOString() }])
  await collect()
  const { body } = await w.get(`${path(id)}/denials`)
  const brief = body.data.map((one: { name: string; address: string; count: number }) => [one.name, one.address, one.count])
  assert.deepEqual(brief.sort(), [
    ['evil??.example', null, 4],
    ['nine.example', '9.9.9.9', 5],
  ])
  assert.deepEqual((await w.get(`${path(open)}/denials`)).body.data, [])
})

test('a guest that tries ever new names fills no table', async () => {
  const id = await w.ready('greedy')
  await put(id, { mode: 'deny_all' })
  await becomes(id, 'enforced')
  const collect = denialsCollector({ ...w, db: w.database.cell, log: silent }, w.egress)
  for (let round = 0; round < 3; round++) {
    const at = new Date(w.clock.now().getTime() + round * 1000).toISOString()
    const denials = Array.from({ length: 256 }, (_, n) => ({
      name: `n${round}-${n}.example`,
      address: null,
      port: 0,
      protocol: 'dns' as const,
      count: 1,
      first_at: at,
      last_at: at,
    }))
    w.host.deny(id, denials)
    await collect()
  }
  const rows = await w.database.superuser.selectFrom('egress_denials').select('target').where('workspace_id', '=', id).execute()
  assert.equal(rows.length, 200)
  assert.ok(rows.every(({ target }) => target.startsWith('n2-')))
})

const silent = { warn: () => undefined } as unknown as Parameters<typeof denialsCollector>[0]['log']
