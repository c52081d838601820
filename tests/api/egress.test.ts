import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { EgressPolicy } from '../../contract/egress/policy.ts'
import { LIMITS } from '../../contract/limits.ts'
import { seeder, world, type World } from './support.ts'

let w: World
before(async () => {
  w = await world()
})
after(() => w[Symbol.asyncDispose]())

const ALL = { mode: 'allow_all', rules: [], cidrs: [] }
const ofProject = (project_id = w.a.project_id) => `/v1/projects/${project_id}/egress-policy`
const ofWorkspace = (id: string) => `/v1/workspaces/${id}/egress-policy`
const put = (path: string, body: unknown, headers: Record<string, string> = {}, as?: string) =>
  w.call('PUT', path, { body, headers, ...(as === undefined ? {} : { as }) })
const seeds = () => seeder(w.database, w.clock, w.ids)
const project = () => seeds().project(w.a.organization_id, `p-${w.ids.next()}`)

async function underCeiling<T>(egress: EgressPolicy, work: () => Promise<T>): Promise<T> {
  const set = (value: string | null) => w.database.superuser.updateTable('template_versions').set({ egress: value }).execute()
  await set(JSON.stringify(egress))
  try {
    return await work()
  } finally {
    await set(null)
  }
}

async function acknowledge(workspace_id: string, said: { epoch: number; revision: string; state?: 'enforced' | 'failed' }) {
  const row = { workspace_id, fence: 1, state: 'enforced' as const, acknowledged_at: w.clock.now(), ...said }
  await w.database.superuser
    .insertInto('workspace_egress')
    .values(row)
    .onConflict((conflict) => conflict.column('workspace_id').doUpdateSet(row))
    .execute()
}

test('a project without a policy allows all egress, at version 0', async () => {
  const { key, project_id } = await project()
  const { status, body, headers } = await w.get(ofProject(project_id), { as: key })
  assert.deepEqual([status, body], [200, { project_id, ...ALL, version: 0, updated_at: null }])
  assert.equal(headers.get('etag'), '"0"')
})

test('each policy of a project is normalized and becomes a new version, and the history is newest first', async () => {
  const { key, key_row_id, project_id } = await project()
  const path = ofProject(project_id)
  const given = {
    mode: 'allowlist',
    rules: [{ host: 'API.Bücher.example.' }, { host: '*.pypi.org', ports: [443, 80] }],
    cidrs: ['8.8.8.0/24'],
  }
  const first = await put(path, given, {}, key)
  const rules = [
    { host: 'api.xn--bcher-kva.example', ports: [443], protocols: ['tcp'] },
    { host: '*.pypi.org', ports: [443, 80], protocols: ['tcp'] },
  ]
  const { updated_at, ...rest } = first.body
  assert.deepEqual([first.status, rest], [200, { project_id, mode: 'allowlist', rules, cidrs: ['8.8.8.0/24'], version: 1 }])
  assert.equal(first.headers.get('etag'), '"1"')
  assert.deepEqual((await w.get(path, { as: key })).body, first.body)
  assert.equal((await put(path, { mode: 'deny_all' }, {}, key)).body.version, 2)
  assert.equal((await put(path, { mode: 'deny_all' }, {}, key)).body.version, 3)
  const page = await w.get(`${path}/versions?limit=2`, { as: key })
  assert.deepEqual(page.body.data.map((one: { version: number }) => one.version), [3, 2]) // prettier-ignore
  const next = await w.get(`${path}/versions?limit=2&cursor=${page.body.next_cursor}`, { as: key })
  const created_by = { type: 'api_key', id: key_row_id }
  const oldest = { version: 1, cleared: false, mode: 'allowlist', rules, cidrs: ['8.8.8.0/24'], created_at: updated_at, created_by }
  assert.deepEqual(next.body, { data: [oldest], next_cursor: null })
})

test('a workspace has the policy of its project, or its own override instead', async () => {
  const { key, project_id } = await project()
  const opened = await w.open('effective', {}, { as: key })
  const path = ofWorkspace(opened.body.workspace.id)
  const seen = async () => {
    const { mode, source, version, project_version, rules } = (await w.get(path, { as: key })).body
    return [mode, source, version, project_version, rules.map(({ host }: { host: string }) => host)]
  }
  assert.deepEqual(await seen(), ['allow_all', 'platform', 0, 0, []])
  await put(ofProject(project_id), { mode: 'allowlist', rules: [{ host: 'project.example' }] }, {}, key)
  assert.deepEqual(await seen(), ['allowlist', 'project', 0, 1, ['project.example']])
  const set = await put(path, { mode: 'allowlist', rules: [{ host: 'own.example' }] }, {}, key)
  assert.deepEqual([set.status, set.headers.get('etag')], [200, '"1"'])
  assert.deepEqual(set.body.effective_policy, {
    mode: 'allowlist',
    rules: [{ host: 'own.example', ports: [443], protocols: ['tcp'] }],
    cidrs: [],
  })
  assert.deepEqual(await seen(), ['allowlist', 'workspace', 1, 1, ['own.example']])
  assert.equal((await w.call('DELETE', path, { as: key })).status, 204)
  assert.deepEqual(await seen(), ['allowlist', 'project', 2, 1, ['project.example']])
  assert.equal((await put(path, { mode: 'allow_all' }, {}, key)).body.version, 3)
  assert.deepEqual(await seen(), ['allow_all', 'workspace', 3, 1, []])
})

test('removing an active override is a new version; without an override it changes nothing', async () => {
  const path = ofWorkspace(await w.running('cleared'))
  const versions = async () => {
    const { body } = await w.get(`${path}/versions`)
    return body.data.map((one: { version: number; cleared: boolean; mode: string | null }) => [one.version, one.cleared, one.mode])
  }
  const never = await w.call('DELETE', path)
  assert.deepEqual([never.status, never.body, await versions()], [204, undefined, []])
  await put(path, { mode: 'deny_all' })
  const done = await w.call('DELETE', path)
  assert.deepEqual([done.status, done.headers.get('etag')], [204, '"2"'])
  assert.equal((await w.call('DELETE', path)).status, 204)
  assert.deepEqual(await versions(), [[2, true, null], [1, false, 'deny_all']]) // prettier-ignore
})

test('a stale If-Match, bare or quoted, changes nothing and names the current version', async () => {
  const { key, project_id } = await project()
  const opened = await w.open('if-match', {}, { as: key })
  for (const path of [ofProject(project_id), ofWorkspace(opened.body.workspace.id)]) {
    const write = (value: string) => put(path, { mode: 'deny_all' }, { 'if-match': value }, key)
    assert.equal((await write('0')).status, 200)
    for (const stale of ['0', '"0"', '2', '999999999']) {
      const { status, body } = await write(stale)
      assert.deepEqual([status, body.error.code, body.error.details], [409, 'conflict', { reason: 'version_mismatch', current_version: 1 }])
    }
    assert.equal((await write('"1"')).body.version, 2)
    for (const unreadable of ['', 'W/"2"', '*', '2, 3', '"2', '-1', '1.0', 'x'.repeat(2000)]) {
      const { status, body } = await write(unreadable)
      assert.deepEqual([status, body.error.code, body.error.details.issues[0].path], [422, 'validation_failed', 'If-Match'], unreadable)
    }
    assert.equal((await w.get(path, { as: key })).body.version, 2)
  }
  const path = ofWorkspace(opened.body.workspace.id)
  const stale = await w.call('DELETE', path, { as: key, headers: { 'if-match': '1' } })
  assert.deepEqual(stale.body.error.details, { reason: 'version_mismatch', current_version: 2 })
  assert.equal((await w.call('DELETE', path, { as: key, headers: { 'if-match': '2' } })).status, 204)
  assert.equal((await w.call('DELETE', path, { as: key, headers: { 'if-match': '2' } })).status, 409)
})

test('of concurrent writes with one If-Match one succeeds, and every other write gets its own version', async () => {
  const { key, project_id } = await project()
  const opened = await w.open('racing', {}, { as: key })
  for (const path of [ofProject(project_id), ofWorkspace(opened.body.workspace.id)]) {
    const write = (headers: Record<string, string>) => put(path, { mode: 'deny_all' }, headers, key)
    const matched = await Promise.all(Array.from({ length: 12 }, () => write({ 'if-match': '0' })))
    assert.deepEqual(matched.map(({ status }) => status).sort(), [200, ...Array<number>(11).fill(409)])
    const free = await Promise.all(Array.from({ length: 12 }, () => write({})))
    assert.deepEqual(
      free.map(({ body }) => body.version).sort((a, b) => a - b),
      Array.from({ length: 12 }, (_, at) => at + 2),
    )
  }
})

test('one answer lists every problem of a policy with path, reason and message', async () => {
  const body = {
    mode: 'allowlist',
    rules: [{ host: 'localhost' }, { host: '2852039166', ports: [0] }],
    cidrs: ['10.0.0.0/8', '8.8.8.8/8'],
    x: 1,
  }
  for (const path of [ofProject(), ofWorkspace(await w.running('invalid'))]) {
    const { status, body: refused } = await put(path, body)
    assert.deepEqual([status, refused.error.code, refused.error.details.reason], [422, 'validation_failed', undefined])
    assert.deepEqual(
      refused.error.details.issues.map((issue: { path: string; reason: string }) => [issue.path, issue.reason]),
      [
        ['x', 'unknown_property'],
        ['rules.0.host', 'local_name'],
        ['rules.1.host', 'ip_literal'],
        ['rules.1.ports.0', 'invalid_port'],
        ['cidrs.0', 'not_public'],
        ['cidrs.1', 'host_bits_set'],
      ],
    )
    assert.ok(refused.error.details.issues.every(({ message }: { message: string }) => message.length > 5))
  }
  const many = { mode: 'allowlist', rules: Array.from({ length: 256 }, () => ({ host: 'localhost' })) }
  assert.equal((await put(ofProject(), many)).body.error.details.issues.length, 256)
})

test("an override beyond the template's ceiling is refused with the excess, and one within it is accepted", async () => {
  const ceiling: EgressPolicy = {
    mode: 'allowlist',
    rules: [{ host: '*.example.com', ports: [443], protocols: ['tcp'] }],
    cidrs: ['8.8.8.0/24'],
  }
  const id = await w.running('ceiling')
  await underCeiling(ceiling, async () => {
    const wide = {
      mode: 'allowlist',
      rules: [{ host: 'a.example.com', ports: [80, 443] }, { host: 'b.test' }],
      cidrs: ['8.8.0.0/16', '8.8.8.8/32'],
    }
    const refused = await put(ofWorkspace(id), wide)
    assert.deepEqual([refused.status, refused.body.error.code], [422, 'validation_failed'])
    assert.deepEqual(refused.body.error.details, {
      reason: 'egress_widening',
      template_egress: ceiling,
      outside: [
        { path: 'rules.0', host: 'a.example.com', ports: [80] },
        { path: 'rules.1', host: 'b.test', ports: [443] },
        { path: 'cidrs.0', cidr: '8.8.0.0/16' },
      ],
    })
    const all = await put(ofWorkspace(id), { mode: 'allow_all' })
    assert.deepEqual(all.body.error.details.outside, [{ path: 'mode', mode: 'allow_all' }])
    const { body } = await w.get(ofWorkspace(id))
    assert.deepEqual([body.version, body.mode, body.template_egress, body.effective_policy], [0, 'allow_all', ceiling, ceiling])
    const within = await put(ofWorkspace(id), { mode: 'allowlist', rules: [{ host: 'a.example.com' }] })
    assert.equal(within.status, 200)
    assert.deepEqual(within.body.effective_policy.rules, [{ host: 'a.example.com', ports: [443], protocols: ['tcp'] }])
  })
})

test('a project policy is intersected with the ceiling, and not refused', async () => {
  const { key, project_id } = await project()
  const opened = await w.open('met', {}, { as: key })
  const rules = [{ host: 'a.example.com' }, { host: 'b.test' }]
  assert.equal((await put(ofProject(project_id), { mode: 'allowlist', rules }, {}, key)).status, 200)
  const ceiling: EgressPolicy = { mode: 'allowlist', rules: [{ host: '*.example.com', ports: [443], protocols: ['tcp'] }], cidrs: [] }
  await underCeiling(ceiling, async () => {
    const { body } = await w.get(ofWorkspace(opened.body.workspace.id), { as: key })
    assert.deepEqual([body.rules.length, body.effective_policy.rules], [2, [{ host: 'a.example.com', ports: [443], protocols: ['tcp'] }]])
  })
})

test("enforcement counts only the host's report about this policy in this epoch", async () => {
  const id = await w.running('enforcement')
  const state = async () => (await w.get(ofWorkspace(id))).body.enforcement.state
  assert.equal(await state(), 'not_enforced')
  await acknowledge(id, { epoch: 0, revision: 'default' })
  assert.equal(await state(), 'not_enforced', 'a word about an earlier epoch')
  await acknowledge(id, { epoch: 1, revision: 'default' })
  assert.equal(await state(), 'enforced')
  await put(ofWorkspace(id), { mode: 'deny_all' })
  assert.equal(await state(), 'pending')
  await acknowledge(id, { epoch: 1, revision: 'something-else' })
  assert.equal(await state(), 'pending')
  await put(ofWorkspace(id), { mode: 'allow_all' })
  await acknowledge(id, { epoch: 1, revision: 'default', state: 'failed' })
  assert.equal(await state(), 'failed')
  await acknowledge(id, { epoch: 1, revision: 'default' })
  assert.equal(await state(), 'enforced')
  await w.cell.succeed((await w.post(`/v1/workspaces/${id}/suspend`)).body.id)
  const { body } = await w.get(ofWorkspace(id))
  assert.deepEqual(body.enforcement, { state: 'not_enforced', acknowledged_at: null })
})

test('the policy of a deleted workspace can be read, and not changed', async () => {
  const id = await w.running('deleted')
  await put(ofWorkspace(id), { mode: 'deny_all' })
  await w.call('DELETE', `/v1/workspaces/${id}`)
  for (const refused of [await put(ofWorkspace(id), { mode: 'allow_all' }), await w.call('DELETE', ofWorkspace(id))]) {
    assert.deepEqual([refused.status, refused.body.error.details.reason], [409, 'workspace_deleted'])
  }
  const { body } = await w.get(ofWorkspace(id))
  assert.deepEqual([body.mode, body.version, body.enforcement.state], ['deny_all', 1, 'not_enforced'])
})

test("a fork, also of a session, has the source's override as its own first version", async () => {
  const id = await w.running('forked')
  await put(ofWorkspace(id), { mode: 'deny_all' })
  await put(ofWorkspace(id), { mode: 'allowlist', rules: [{ host: 'a.example' }] })
  const forked = await w.post(`/v1/workspaces/${id}/fork`, { key: 'forked-2', lifetime: 'session' })
  const { body } = await w.get(ofWorkspace(forked.body.workspace.id))
  assert.deepEqual([body.source, body.version, body.rules[0].host], ['workspace', 1, 'a.example'])
  await w.cell.succeed(forked.body.operation.id)
  await w.call('DELETE', ofWorkspace(id))
  const other = await w.post(`/v1/workspaces/${id}/fork`, { key: 'forked-3' })
  assert.equal((await w.get(ofWorkspace(other.body.workspace.id))).body.source, 'platform')
})

test("owners, admins and keys with a tool write a project's policy, members a workspace's, the billing role neither", async () => {
  const { organization_id, project_id } = w.a
  const toolless = (await seeds().key(organization_id, project_id, [])).key
  const id = await w.running('roles')
  const told: Record<string, unknown> = {}
  for (const role of ['owner', 'admin', 'member', 'billing'] as const) {
    const as = (await seeds().person(organization_id, role)).token
    const statuses = [await put(ofProject(), ALL, {}, as), await put(ofWorkspace(id), ALL, {}, as), await w.get(ofProject(), { as })]
    told[role] = statuses.map(({ status }) => status)
  }
  told['toolless'] = [(await put(ofProject(), ALL, {}, toolless)).status, (await put(ofWorkspace(id), ALL, {}, toolless)).status]
  assert.deepEqual(told, {
    owner: [200, 200, 200],
    admin: [200, 200, 200],
    member: [403, 200, 200],
    billing: [403, 403, 200],
    toolless: [403, 200],
  })
  const events = w.database.superuser
    .selectFrom('audit_events')
    .select(['subject_kind', 'details'])
    .where('action', '=', 'egress.project_put')
  const last = await events.orderBy('id', 'desc').executeTakeFirstOrThrow()
  assert.deepEqual([last.subject_kind, (last.details as { mode: string }).mode], ['project', 'allow_all'])
})

test('refused connections are listed by name or address with their count, newest first, for a day', async () => {
  const id = await w.running('denied')
  const at = (ago_seconds: number) => new Date(w.clock.now().getTime() - ago_seconds * 1000)
  const row = (target: string, given: object) => ({ workspace_id: id, protocol: 'tcp' as const, target, port: 443, name: null, address: target, count: 1, first_at: at(60), last_at: at(50), ...given }) // prettier-ignore
  await w.database.cell
    .insertInto('egress_denials')
    .values([
      row('evil.example', { protocol: 'dns', port: 0, name: 'evil.example', address: null, count: 3, last_at: at(10) }),
      row('9.9.9.9', { count: 2, first_at: at(3000), last_at: at(2000) }),
      row('9.9.9.9', { count: 5, name: 'nine.example', last_at: at(20) }),
      row('1.2.3.4', { first_at: at(25 * 3600), last_at: at(24 * 3600 + 60) }),
    ])
    .execute()
  const { status, body } = await w.get(`${ofWorkspace(id)}/denials`)
  const brief = body.data.map(({ first_at: _f, last_at: _l, ...one }: { first_at: string; last_at: string }) => one)
  assert.deepEqual(
    [status, brief, body.next_cursor],
    [
      200,
      [
        { name: 'evil.example', address: null, port: null, protocol: 'dns', count: 3 },
        { name: 'nine.example', address: '9.9.9.9', port: 443, protocol: 'tcp', count: 7 },
      ],
      null,
    ],
  )
})

test('the oldest of many policy versions are deleted', async () => {
  const { key, project_id, organization_id } = await project()
  await put(ofProject(project_id), { mode: 'deny_all' }, {}, key)
  const rows = Array.from({ length: LIMITS.egress.versions_max }, (_, at) => ({
    id: w.ids.next(),
    organization_id,
    project_id,
    workspace_id: null,
    version: at + 2,
    mode: 'deny_all' as const,
    rules: '[]',
    cidrs: [],
    created_by_type: 'user' as const,
    created_by_id: w.ids.next(),
    created_at: w.clock.now(),
  }))
  await w.database.superuser.insertInto('egress_versions').values(rows).execute()
  const newest = await put(ofProject(project_id), { mode: 'deny_all' }, {}, key)
  assert.equal(newest.body.version, LIMITS.egress.versions_max + 2)
  const kept = await w.database.superuser.selectFrom('egress_versions').select('version').where('project_id', '=', project_id).execute()
  assert.deepEqual([kept.length, Math.min(...kept.map(({ version }) => version))], [LIMITS.egress.versions_max, 3])
})
