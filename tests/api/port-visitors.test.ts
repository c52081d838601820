import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { cookieOf } from '../../service/core/workspaces/ports/credentials.ts'
import { hostIdOf } from '../../service/core/workspaces/ports/host-id.ts'
import { startPorts, type Ports } from '../../service/cell/ports/ports.ts'
import { startConfirming } from '../../service/cell/reconcile/revocations/confirm.ts'
import { revocationEnforcers } from '../../service/cell/reconcile/revocations/enforcers.ts'
import { depth } from '../support/depth.ts'
import { portProxy, type PortProxy } from '../support/port-proxy.ts'
import { until } from '../support/processes.ts'
import { seeder } from './support.ts'
import { worldWithCell, type CellWorld } from './with-cell.ts'

let w: CellWorld
let ports: Ports
let proxy: PortProxy
let stop_confirming: () => void
const folder = mkdtempSync(join(tmpdir(), 'berth-ports-test-'))
const socket = join(folder, 'socket')
before(async () => {
  const capacity = { cpu_millis: 1_000_000, memory_mib: 1_000_000, disk_gib: 100_000 }
  w = await worldWithCell({ capacity }, { revocation_held_seconds: 60 })
  ports = await startPorts(w.ports_deps, socket)
  stop_confirming = startConfirming(w.ports_deps, revocationEnforcers({ ...w, ports }))
  proxy = await portProxy(socket)
})
after(async () => {
  stop_confirming()
  proxy[Symbol.dispose]()
  await ports.close()
  await w[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true, force: true })
})

const path = (id: string, rest: string) => `/v1/workspaces/${id}/ports/3000${rest}`
const inUse = (id: string) => w.table.seen(id)?.holds.length ?? 0
const stateOf = async (id: string): Promise<string> => (await w.get(`/v1/workspaces/${id}`)).body.observed_state

async function exposed(key: string): Promise<{ id: string; token: string }> {
  const id = await w.ready(key)
  await w.call('PUT', path(id, ''))
  return { id, token: (await w.post(path(id, '/tokens'))).body.token }
}

async function suspended(key: string): Promise<{ id: string; token: string }> {
  const made = await exposed(key)
  await suspend(made.id)
  return made
}

async function suspend(id: string): Promise<void> {
  assert.equal((await w.ended((await w.post(`/v1/workspaces/${id}/suspend`)).body.id)).state, 'succeeded')
}

async function granted(id: string, token: string) {
  const { grant } = await proxy.ask(id, 3000, 'token', token)
  assert.ok(grant)
  return grant
}

const cutOf = async (lease: number) => (await proxy.heard('a cut', ({ cut }) => cut?.lease === lease)).cut

test("a good token yields the machine's address, and keeps the machine in use until no request is left", async () => {
  const { id, token } = await exposed('good')
  const grant = await granted(id, token)
  assert.deepEqual([grant.port, grant.workspace_id, grant.address], [3000, id, '127.0.0.1'])
  assert.ok((grant.expires_in_ms ?? 0) > 3_590_000)
  assert.equal(inUse(id), 1)
  proxy.say({ idle: { lease: grant.lease, at_ms_ago: 1 } })
  await until('nothing keeps it in use', 5000, () => inUse(id) === 0)
  proxy.say({ busy: { lease: grant.lease } })
  const { ready } = await proxy.heard('ready', ({ ready }) => ready?.lease === grant.lease)
  assert.deepEqual([ready?.address, ready?.epoch, inUse(id)], [grant.address, grant.epoch, 1])
  proxy.say({ release: { lease: grant.lease, used_ms_ago: 1 } })
  await until('nothing keeps it in use', 5000, () => inUse(id) === 0)
  assert.deepEqual(ports.leases(), [])
})

test('a token of another port, workspace or kind, and an unknown one, get the same refusal and wake nothing', async () => {
  const one = await suspended('bad-one')
  const other = await exposed('bad-other')
  await w.call('PUT', `/v1/workspaces/${one.id}/ports/3001`)
  const wrong = `sfp_${'A'.repeat(43)}`
  const nobodys = w.ids.next()
  const answers = [
    await proxy.ask(one.id, 3001, 'token', one.token),
    await proxy.ask(one.id, 3000, 'token', other.token),
    await proxy.ask(one.id, 3000, 'cookie', `sfc_${one.token.slice(4)}`),
    await proxy.ask(one.id, 3000, 'callback', one.token),
    await proxy.ask(one.id, 3000, 'token', wrong),
    await proxy.ask(one.id, 3000, 'token', `${one.token}x`),
    await proxy.ask(nobodys, 3000, 'token', wrong),
    await proxy.ask(nobodys, 3000, 'token', one.token),
    await proxy.ask(one.id, 3000, 'token', one.token, { host_id: 'none' }),
  ]
  const refusals = answers.map(({ refuse }) => refuse && { ...refuse, id: 0 })
  for (const refusal of refusals) assert.deepEqual(refusal, refusals[0])
  assert.deepEqual([refusals[0]?.status, refusals[0]?.reason], [401, 'credential_invalid'])
  assert.equal(await stateOf(one.id), 'suspended')
  assert.deepEqual(
    (await w.operations(one.id)).map(({ kind }) => kind),
    ['suspend', 'open'],
  )
})

test('a thousand visitors with bad credentials leave a suspended workspace asleep', async () => {
  const { id } = await suspended('flood')
  const asked = Array.from({ length: 1000 }, (_, n) => proxy.ask(id, 3000, 'token', `sfp_${String(n).padStart(43, 'A')}`))
  const answers = await Promise.all(asked)
  assert.ok(answers.every(({ refuse }) => refuse?.reason === 'credential_invalid'))
  assert.equal(await stateOf(id), 'suspended')
  assert.equal(inUse(id), 0)
})

test('a visit resumes a suspended workspace once for many visitors, and the record names the port request', async () => {
  const { id, token } = await suspended('asleep')
  const grants = await Promise.all([1, 2, 3, 4].map(() => granted(id, token)))
  assert.equal(await stateOf(id), 'running')
  assert.equal(new Set(grants.map(({ epoch }) => epoch)).size, 1)
  assert.deepEqual(
    (await w.operations(id)).map(({ kind }) => kind),
    ['resume', 'suspend', 'open'],
  )
  const events = await w.database.superuser.selectFrom('audit_events').selectAll().where('subject_id', '=', id).execute()
  const resumed = events.find(({ action }) => action === 'workspaces.resume')
  assert.deepEqual(
    [resumed?.actor_kind, resumed?.actor_name, resumed?.details],
    ['service', 'cell', { reason: 'port_request', port: 3000 }],
  )
})

test('a workspace that is being suspended admits no visitor; the visitor waits, and the workspace is resumed', async () => {
  const { id, token } = await exposed('suspending')
  const before = await granted(id, token)
  using _paused = w.host.intercept('checkpoint', 'before', async () => void (await cutOf(before.lease)))
  const suspending = await w.post(`/v1/workspaces/${id}/suspend`)
  const grant = await granted(id, token)
  assert.equal((await cutOf(before.lease))?.reason, 'machine_moved')
  assert.equal(grant.workspace_id, id)
  assert.equal((await w.ended(suspending.body.id)).state, 'succeeded')
  assert.equal(await stateOf(id), 'running')
})

test('a plan that refuses starts, and a used-up allowance, refuse visitors of a suspended workspace and not of a running one', async () => {
  const [asleep, awake] = [await suspended('plan-asleep'), await exposed('plan-awake')]
  const organization = w.database.superuser.updateTable('organizations').where('id', '=', w.a.organization_id)
  try {
    await organization.set({ refuses_starts: 'unpaid' }).execute()
    const refused = (await proxy.ask(asleep.id, 3000, 'token', asleep.token)).refuse
    assert.deepEqual([refused?.status, refused?.reason, refused?.retry_after_seconds], [503, 'entitlement_required', 60])
    assert.ok((await proxy.ask(awake.id, 3000, 'token', awake.token)).grant)
    await organization.set({ refuses_starts: null, allowance_exhausted: 'allowance_used' }).execute()
    assert.equal((await proxy.ask(asleep.id, 3000, 'token', asleep.token)).refuse?.reason, 'allowance_exhausted')
  } finally {
    await organization.set({ refuses_starts: null, allowance_exhausted: null }).execute()
  }
  assert.equal(await stateOf(asleep.id), 'suspended')
})

test('a failed resume refuses the visitor, and is not tried again at once', async () => {
  const { id, token } = await suspended('broken')
  const { checkpoint_id } = await w.database.superuser
    .selectFrom('workspaces')
    .select('checkpoint_id')
    .where('id', '=', id)
    .executeTakeFirstOrThrow()
  w.host.corrupt(checkpoint_id ?? '')
  const refused = (await proxy.ask(id, 3000, 'token', token)).refuse
  assert.deepEqual([refused?.status, refused?.reason], [503, 'resume_failed'])
  assert.equal((await proxy.ask(id, 3000, 'token', token)).refuse?.reason, 'resume_failed')
  assert.deepEqual(
    (await w.operations(id)).map(({ kind }) => kind),
    ['resume', 'suspend', 'open'],
  )
})

test('a failed workspace refuses visitors and is not started', async () => {
  const { id, token } = await exposed('failed')
  await w.database.superuser.updateTable('workspaces').set({ observed_state: 'failed' }).where('id', '=', id).execute()
  const refused = (await proxy.ask(id, 3000, 'token', token)).refuse
  assert.deepEqual([refused?.status, refused?.reason], [503, 'workspace_failed'])
})

test('closing a port cuts its visitors, and its credentials open nothing, even when it is exposed again', async () => {
  const { id, token } = await exposed('closed')
  const callback = await callbackOf(id)
  const [by_token, by_callback] = [await granted(id, token), (await proxy.ask(id, 3000, 'callback', callback)).grant]
  assert.ok(by_callback)
  await w.call('DELETE', path(id, ''))
  for (const { lease } of [by_token, by_callback]) assert.deepEqual(await cutOf(lease), { lease, reason: 'port_closed', status: 404 })
  assert.equal(inUse(id), 0)
  await w.call('PUT', path(id, ''))
  assert.equal((await proxy.ask(id, 3000, 'token', token)).refuse?.reason, 'credential_invalid')
})

test('a replaced or revoked callback URL is invalid, and a token of the port stays valid', async () => {
  const { id, token } = await exposed('callback')
  const first = await callbackOf(id)
  const kept = await granted(id, token)
  const lease = (await proxy.ask(id, 3000, 'callback', first)).grant?.lease ?? 0
  const second = await callbackOf(id)
  assert.deepEqual(await cutOf(lease), { lease, reason: 'credential_revoked', status: 401 })
  assert.equal((await proxy.ask(id, 3000, 'callback', first)).refuse?.reason, 'credential_invalid')
  const again = (await proxy.ask(id, 3000, 'callback', second)).grant?.lease ?? 0
  await w.call('DELETE', path(id, '/callback'))
  assert.equal((await cutOf(again))?.reason, 'credential_revoked')
  assert.ok(!proxy.said.some(({ cut }) => cut?.lease === kept.lease))
})

const callbackOf = async (id: string) => new URL((await w.post(path(id, '/callback'))).body.url).pathname.split('/')[3] ?? ''
const REVOKING: Record<string, (id: string) => Promise<{ status: number }>> = {
  replaced: (id) => w.post(path(id, '/callback')),
  revoked: (id) => w.call('DELETE', path(id, '/callback')),
  closed: (id) => w.call('DELETE', path(id, '')),
  deleted: (id) => w.call('DELETE', `/v1/workspaces/${id}`),
}

test('a revocation is answered when the proxy has ended the streams of the revoked credential', async () => {
  for (const [name, revoke] of Object.entries(REVOKING)) {
    const { id } = await exposed(`held-${name}`)
    const lease = (await proxy.ask(id, 3000, 'callback', await callbackOf(id))).grant?.lease ?? 0
    const before = proxy.said.length
    proxy.settles = false
    let is_answered = false
    const answer = revoke(id).finally(() => (is_answered = true))
    await proxy.heard('a settle', (one) => one.settle !== undefined && proxy.said.indexOf(one) >= before)
    const told = proxy.said.slice(before)
    const place = (fits: (one: (typeof told)[number]) => boolean) => told.findIndex(fits)
    assert.ok(place(({ cut }) => cut?.lease === lease) < place(({ settle }) => settle !== undefined), name)
    assert.equal(is_answered, false, name)
    proxy.settles = true
    for (const { settle } of proxy.said.slice(before)) if (settle !== undefined) proxy.say({ settled: { id: settle.id } })
    assert.ok((await answer).status < 300, name)
  }
})

test('a credential opens nothing after the answer that revokes it', async () => {
  const { id } = await exposed('at-once')
  for (let round = 0; round < depth({ short: 6, long: 200 }); round += 1) {
    for (const kind of ['replaced', 'revoked', 'closed']) {
      const callback = await callbackOf(id)
      assert.ok((await proxy.ask(id, 3000, 'callback', callback)).grant)
      await REVOKING[kind]?.(id)
      assert.equal((await proxy.ask(id, 3000, 'callback', callback)).refuse?.reason, 'credential_invalid', `${kind}, round ${round}`)
    }
    await w.call('PUT', path(id, ''))
  }
})

test('an API key is refused by every api process after the answer that revokes it', async () => {
  const second = await w.second()
  const owner = await seeder(w.database, w.clock, w.ids).person(w.a.organization_id, 'owner', { stepped_up: true })
  const keys = `/v1/projects/${w.a.project_id}/api-keys`
  for (let round = 0; round < depth({ short: 4, long: 200 }); round += 1) {
    const made = (await w.post(keys, { name: `of ${round}`, tool_permissions: ['exec'] }, { as: owner.token })).body
    const asked = { as: made.api_key, base: second }
    assert.equal((await w.get('/v1/me', asked)).status, 200)
    assert.equal((await w.call('DELETE', `${keys}/${made.id}`, { as: owner.token })).status, 204)
    assert.equal((await w.get('/v1/me', asked)).status, 401, `round ${round}`)
  }
})

test('a signed link is exchanged for its cookie without waking the workspace, and the cookie opens the port', async () => {
  const { id } = await suspended('link')
  const made = (await w.post(path(id, '/links'), { path: '/app?x=1', ttl_seconds: 600 })).body
  const link = new URL(made.url).searchParams.get('t') ?? ''
  const { redirect } = await proxy.ask(id, 3000, 'link', link)
  assert.deepEqual([redirect?.path, redirect?.cookie], ['/app?x=1', cookieOf(link)])
  assert.ok((redirect?.max_age_seconds ?? 0) > 590 && (redirect?.max_age_seconds ?? 0) <= 600)
  assert.equal(await stateOf(id), 'suspended')
  const grant = (await proxy.ask(id, 3000, 'cookie', cookieOf(link))).grant
  assert.ok((grant?.expires_in_ms ?? Number.MAX_VALUE) <= 600_000)
  assert.equal((await proxy.ask(id, 3001, 'cookie', cookieOf(link))).refuse?.reason, 'credential_invalid')
})

test('an expired credential is refused, and its visitors are cut', async () => {
  const { id } = await exposed('expired')
  const { token } = (await w.post(path(id, '/tokens'), { ttl_seconds: 60 })).body
  // Lets the token expire in 1.5 s, as if most of its minute had passed.
  const soon = new Date(w.clock.now().getTime() + 1500)
  const { database } = w
  await database.superuser
    .updateTable('port_credentials')
    .set({ expires_at: soon })
    .where('kind', '=', 'token')
    .where('expires_at', '<', new Date(w.clock.now().getTime() + 61_000))
    .execute()
  const grant = await granted(id, token)
  assert.deepEqual(await cutOf(grant.lease), { lease: grant.lease, reason: 'credential_expired', status: 401 })
  assert.equal((await proxy.ask(id, 3000, 'token', token)).refuse?.reason, 'credential_expired')
})

test('a suspend, a delete and the death of the machine cut the visitors', async () => {
  const [one, two, three] = [await exposed('cut-suspend'), await exposed('cut-delete'), await exposed('cut-death')]
  const leases = [await granted(one.id, one.token), await granted(two.id, two.token), await granted(three.id, three.token)]
  await suspend(one.id)
  await w.call('DELETE', `/v1/workspaces/${two.id}`)
  w.host.kill(three.id)
  const reasons = await Promise.all(leases.map(async ({ lease }) => (await cutOf(lease))?.reason))
  assert.equal(reasons[0], 'machine_moved')
  assert.ok(['workspace_gone', 'port_closed'].includes(reasons[1] ?? ''), reasons[1])
  assert.equal(reasons[2], 'machine_moved')
  for (const { id } of [one, two, three]) assert.equal(inUse(id), 0)
})

test('an open request keeps a workspace from idle suspend, and the idle time runs from its end', async () => {
  const { id, token } = await exposed('idle')
  const grant = await granted(id, token)
  w.advance(3600)
  await w.look()
  assert.equal(await stateOf(id), 'running')
  proxy.say({ idle: { lease: grant.lease, at_ms_ago: 0 } })
  await until('nothing keeps it in use', 5000, () => inUse(id) === 0)
  await w.look()
  assert.deepEqual(
    (await w.operations(id)).map(({ kind }) => kind),
    ['open'],
  )
  w.advance(3600)
  await w.look()
  assert.deepEqual(
    (await w.operations(id)).map(({ kind }) => kind),
    ['suspend', 'open'],
  )
})

test("visits count for the port and its workspace's usage, and a visit is recorded without its credential", async () => {
  const { id, token } = await exposed('counted')
  const { lease } = await granted(id, token)
  proxy.say({ count: { lease, requests: 2, received_bytes: 10, sent_bytes: 1000 } })
  proxy.say({ count: { lease, requests: 1, received_bytes: 0, sent_bytes: 24 } })
  const before_ms = w.clock.now().getTime()
  await until('the counts are written', 10_000, async () => {
    await ports.flush()
    return (await w.get(path(id, ''))).body.requests === 3
  })
  const { requests, received_bytes, sent_bytes, last_request_at } = (await w.get(path(id, ''))).body
  assert.deepEqual([requests, received_bytes, sent_bytes], [3, 10, 1024])
  assert.ok(Math.abs(Date.parse(last_request_at) - before_ms) < 60_000)
  const samples = await w.database.superuser
    .selectFrom('usage_samples')
    .select(['port_received_bytes', 'port_sent_bytes'])
    .where('workspace_id', '=', id)
    .execute()
  assert.deepEqual(
    samples.map((one) => [one.port_received_bytes, one.port_sent_bytes]),
    [[10, 1024]],
  )
  const visits = () => w.database.superuser.selectFrom('audit_events').selectAll().where('action', '=', 'ports.visit').execute()
  await until('the visit is recorded', 10_000, async () =>
    (await visits()).some(({ details }) => (details as { workspace_id: string }).workspace_id === id),
  )
  const visit = (await visits()).find(({ details }) => (details as { workspace_id: string }).workspace_id === id)
  assert.deepEqual([visit?.source_address, (visit?.details as { credential: string }).credential], ['203.0.113.9', 'token'])
  assert.ok(!JSON.stringify(visit).includes(token))
})

test('a proxy whose connection ends holds nothing in use, and starts fresh with its next connection', async () => {
  const { id, token } = await exposed('reconnect')
  const other = await portProxy(socket)
  assert.ok((await other.ask(id, 3000, 'token', token)).grant)
  other[Symbol.dispose]()
  await until('nothing keeps it in use', 5000, () => inUse(id) === 0)
  assert.ok((await proxy.ask(id, 3000, 'token', token)).grant)
})

test('a visitor who disconnects while the workspace wakes leaves nothing in use', async () => {
  const { id, token } = await suspended('left')
  const credential = { kind: 'token', value: token }
  proxy.say({ ask: { id: 777_777, host_id: hostIdOf(id), port: 3000, credential, websocket: false, method: 'GET', client: '' } })
  proxy.say({ abort: { id: 777_777 } })
  await granted(id, token).then(({ lease }) => proxy.say({ release: { lease, used_ms_ago: 0 } }))
  await until('nothing keeps it in use', 5000, () => inUse(id) === 0)
  assert.ok(!proxy.said.some(({ grant, refuse }) => grant?.id === 777_777 || refuse?.id === 777_777))
})

test('a broken frame, one before the greeting and an oversized one close their connection and no other', async () => {
  assert.equal(statSync(socket).mode & 0o777, 0o660)
  const nonsense = [
    '{"ask":{"id":1}}\n',
    'x\n',
    '[]\n',
    '{"hello":{"version":1}}\n',
    '{"count":{"lease":1,"requests":-1,"received_bytes":0,"sent_bytes":0}}\n',
    `{"ask":"${'x'.repeat(70_000)}`,
  ]
  for (const text of nonsense) {
    using other = await portProxy(socket)
    other.write(text)
    await until(`${text.slice(0, 40)} closes it`, 5000, () => other.closed)
  }
  const { id, token } = await exposed('still')
  assert.ok((await proxy.ask(id, 3000, 'token', token)).grant)
})
