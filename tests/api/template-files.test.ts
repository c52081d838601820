import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { until } from '../support/processes.ts'
import { seeder, SETTINGS, type Answer } from './support.ts'
import { worldWithCell, type CellWorld } from './with-cell.ts'

let w: CellWorld
let owner: string
let seeds: ReturnType<typeof seeder>
before(async () => {
  w = await worldWithCell()
  seeds = seeder(w.database, w.clock, w.ids)
  owner = (await seeds.person(w.a.organization_id, 'owner')).token
})
after(() => w[Symbol.asyncDispose]())

const said = ({ status, body }: Answer) =>
  status < 400 ? status : [status, body.error.code, body.error.details?.reason, body.error.retryable]
const long = (path: string) => `/v1/organizations/${w.a.organization_id}/templates${path}`

/** Only the version's own layer is named: no host of these tests has the base's layers. */
async function saved(slug: string, files: Record<string, string>): Promise<number> {
  const id = await w.ready(`of-${slug}-${Object.keys(files).length}`)
  for (const [path, text] of Object.entries(files)) w.host.guest(id).files.set(path, text)
  const { body } = await w.post(`/v1/workspaces/${id}/save-as-template`, { template_slug: slug, auto_publish: true })
  let build = body.build
  await until('the build is over', 60_000, async () => {
    build = (await w.get(`/v1/template-builds/${build.id}`, { headers: { prefer: 'wait=20' } })).body
    return build.completed_at !== null
  })
  const made = (await w.get(`/v1/templates/${slug}/versions/${build.version}`)).body
  const row = w.database.superuser.updateTable('template_versions').where('id', '=', made.id)
  await row.set({ layers: [made.layers.at(-1)] }).execute()
  return build.version
}

async function listed(path: string): Promise<Answer> {
  let answer = await w.get(path)
  await until('the list is there', 60_000, async () => {
    answer = await w.get(path)
    return answer.body.error?.details?.reason !== 'file_list_indexing'
  })
  return answer
}

test("a version's files are listed directory by directory, once the list has been made", async () => {
  const version = await saved('listed', { '/srv/app/one': 'text', '/srv/app/two': '', '/srv/zero': 'x' })
  const at = `/v1/templates/listed/versions/${version}/files`
  assert.deepEqual(said(await w.get(at)), [409, 'conflict', 'file_list_indexing', true])
  const { status, body } = await listed(at)
  assert.deepEqual(
    [status, body.data.map(({ path, type }: Answer['body']) => [path, type]), body.next_cursor],
    [200, [['/srv', 'directory']], null],
  )
  const app = await w.get(`${at}?path=/srv/app`)
  const one = { path: '/srv/app/one', name: 'one', type: 'file', size_bytes: 4, mode: '0644', uid: 0, gid: 0, target: null }
  const sha256 = '982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1'
  assert.deepEqual([app.body.data[0], app.body.data[1].path, app.body.data.length], [{ ...one, sha256 }, '/srv/app/two', 2])
  assert.deepEqual((await w.get(`${at}?path=/srv/app/one`)).body, { data: [{ ...one, sha256 }], next_cursor: null })
  assert.deepEqual((await w.get(`${long('/listed/versions/1/files')}?path=/srv/app`)).body, app.body)
})

test('a list has pages, and refuses a missing path and a cursor of another list', async () => {
  const version = await saved('paged', { '/a': '1', '/b': '2', '/c': '3', '/d/e': '4' })
  const at = `/v1/templates/paged/versions/${version}/files`
  await listed(at)
  const first = (await w.get(`${at}?limit=3`)).body
  const second = (await w.get(`${at}?limit=3&cursor=${first.next_cursor}`)).body
  const names = (body: Answer['body']) => body.data.map(({ name }: { name: string }) => name)
  assert.deepEqual([names(first), names(second), second.next_cursor], [['a', 'b', 'c'], ['d'], null])
  for (const path of ['/x', '/a/b', '/d/e/f']) {
    const answer = await w.get(`${at}?path=${path}`)
    assert.deepEqual([...(said(answer) as unknown[]), answer.body.error.details.path], [404, 'not_found', 'path_not_found', false, path])
  }
  for (const query of [
    'path=d',
    'path=/d/',
    'path=/d/../a',
    'limit=1001',
    `cursor=${first.next_cursor}&path=/d`,
    'cursor=AAAA',
    'cursor=x',
  ]) {
    assert.equal((await w.get(`${at}?${query}`)).status, 422, query)
  }
  assert.deepEqual(said(await w.get('/v1/templates/paged/versions/9/files')), [404, 'not_found', 'version_not_found', false])
  assert.deepEqual(said(await w.get('/v1/templates/absent/versions/1/files')), [404, 'not_found', undefined, false])
})

test('a comparison of two versions lists added, removed and changed files in pages, in either direction and across templates', async () => {
  await saved('compared', { '/etc/same': 's', '/etc/name': 'old', '/gone/deep/file': 'x', '/kind': 'file' })
  await saved('compared', { '/etc/same': 's', '/etc/name': 'new', '/fresh/file': 'x', '/kind/inner': 'y', '/z': 'z' })
  const at = '/v1/templates/compared/versions/2/diff?against=1'
  const { body } = await listed(at)
  const told = (all: Answer['body']) => all.data.map(({ path, change }: Answer['body']) => [change, path])
  const expected = [
    ['modified', '/etc/name'],
    ['added', '/fresh'],
    ['added', '/fresh/file'],
    ['deleted', '/gone'],
    ['deleted', '/gone/deep'],
    ['deleted', '/gone/deep/file'],
    ['modified', '/kind'],
    ['added', '/kind/inner'],
    ['added', '/z'],
  ]
  assert.deepEqual([told(body), body.next_cursor], [expected, null])
  const [name] = body.data
  assert.deepEqual([name.before.size_bytes, name.after.size_bytes, name.before.sha256 === name.after.sha256], [3, 3, false])
  for (const limit of [1, 2, 4]) {
    let [all, cursor] = [[] as unknown[], '']
    for (let pages = 0; pages < 10; pages += 1) {
      const page = (await w.get(`${at}&limit=${limit}${cursor}`)).body
      all = [...all, ...told(page)]
      if (page.next_cursor === null) break
      cursor = `&cursor=${page.next_cursor}`
    }
    assert.deepEqual(all, expected, `pages of ${limit}`)
  }
  assert.deepEqual((await w.get('/v1/templates/compared/versions/2/diff')).body, body)
  const first = told((await w.get('/v1/templates/compared/versions/1/diff')).body)
  assert.deepEqual([first.length, first[0]], [7, ['added', '/etc']])
  const back = (await w.get(`${long('/compared/versions/1/diff')}?against=2`)).body
  assert.deepEqual(told(back).slice(0, 2), [
    ['modified', '/etc/name'],
    ['deleted', '/fresh'],
  ])
  assert.deepEqual((await w.get('/v1/templates/compared/versions/1/diff?against=compared@1')).body, { data: [], next_cursor: null })
  for (const against of ['9', 'compared@9']) {
    assert.deepEqual(said(await w.get(`/v1/templates/compared/versions/1/diff?against=${against}`)), [
      404,
      'not_found',
      'version_not_found',
      false,
    ])
  }
  assert.deepEqual(said(await w.get('/v1/templates/compared/versions/1/diff?against=absent@1')), [404, 'not_found', undefined, false])
  for (const query of ['?against=', '?against=x', '?against=0', '?limit=1001']) {
    assert.equal((await w.get(`/v1/templates/compared/versions/1/diff${query}`)).status, 422, query)
  }
})

test('a version whose image is on no host has no list, and is looked up again later', async () => {
  const at = '/v1/templates/base/versions/1/files'
  const answer = await listed(at)
  assert.deepEqual(said(answer), [409, 'conflict', 'file_list_unavailable', false])
  w.clock.ahead_ms += 120_000
  assert.deepEqual(said(await w.get(at)), [409, 'conflict', 'file_list_indexing', true])
  assert.deepEqual(said(await listed('/v1/templates/base/versions/1/diff?against=1')), [409, 'conflict', 'file_list_unavailable', false])
})

test('a host that does not answer for a while is asked again, and the list is made', async () => {
  const version = await saved('patient', { '/a/b': '1' })
  const at = `/v1/templates/patient/versions/${version}/files?path=/a`
  w.host.setReachable(false)
  assert.deepEqual(said(await w.get(at)), [409, 'conflict', 'file_list_indexing', true])
  w.host.setReachable(true)
  await w.database.superuser.updateTable('layer_lists').set({ state: 'wanted' }).where('state', '=', 'wanted').execute()
  assert.deepEqual((await listed(at)).body.data.length, 1)
})

test('an archived template accepts no open, build, save, test or publish, and its workspaces go on', async () => {
  const version = await saved('ending', { '/a': '1' })
  const opened = await w.ready('of-ending', { template: 'ending' })
  const archive = (path: string, as = owner) => w.post(path, undefined, { as })
  const first = await archive('/v1/templates/ending/archive')
  assert.deepEqual([first.status, typeof first.body.archived_at, first.body.slug], [200, 'string', 'ending'])
  assert.deepEqual((await archive(long('/ending/archive'))).body, first.body)
  const archived = [409, 'conflict', 'template_archived', false]
  assert.deepEqual(said(await w.open('later', { template: 'ending' })), archived)
  assert.deepEqual(said(await w.post(`/v1/templates/ending/versions/${version}/test-instances`, {})), archived)
  assert.deepEqual(said(await w.post('/v1/templates/ending/builds', { recipe: { base: 'compared' } })), archived)
  const onto = await w.post('/v1/templates/other/builds', { recipe: { base: 'ending' } })
  assert.deepEqual(said(onto), [422, 'validation_failed', 'base_archived', false])
  assert.deepEqual(said(await w.post(`/v1/workspaces/${opened}/save-as-template`, { template_slug: 'ending' })), archived)
  assert.deepEqual(said(await archive(`/v1/templates/ending/versions/${version}/publish`)), archived)
  assert.equal((await w.open('of-ending', { template: 'ending' })).status, 200)
  assert.equal((await w.get('/v1/templates/ending')).body.archived_at, first.body.archived_at)
  const events = await w.database.superuser
    .selectFrom('audit_events')
    .select('action')
    .where('action', 'like', 'templates.archive%')
    .execute()
  assert.deepEqual(events, [{ action: 'templates.archive' }])
})

test("owners and admins alone archive a template, and no tenant archives the platform's", async () => {
  await seeds.template(w.a.organization_id, 'kept', SETTINGS)
  const member = (await seeds.person(w.a.organization_id, 'member')).token
  assert.deepEqual(said(await w.post('/v1/templates/kept/archive', undefined)), [403, 'forbidden', undefined, false])
  assert.deepEqual(said(await w.post('/v1/templates/kept/archive', undefined, { as: member })), [403, 'forbidden', undefined, false])
  assert.deepEqual(said(await w.post('/v1/templates/base/archive', undefined, { as: owner })), [
    422,
    'validation_failed',
    'platform_template_slug',
    false,
  ])
  assert.deepEqual(said(await w.post('/v1/templates/absent/archive', undefined, { as: owner })), [404, 'not_found', undefined, false])
  assert.equal((await w.get('/v1/templates/kept')).body.archived_at, null)
})

test('the route that names the organization refuses for the same reasons', async () => {
  const version = await saved('both', { '/a': '1' })
  const asked = (path: string) => w.get(long(path))
  const indexing = [409, 'conflict', 'file_list_indexing', true]
  assert.deepEqual(said(await asked(`/both/versions/${version}/files`)), indexing)
  await listed(long(`/both/versions/${version}/files`))
  assert.deepEqual(said(await asked(`/both/versions/${version}/files?path=/x`)), [404, 'not_found', 'path_not_found', false])
  const second = await saved('both', { '/a': '2', '/b': '2' })
  assert.deepEqual(said(await asked(`/both/versions/${second}/diff`)), indexing)
  await listed(long(`/both/versions/${second}/diff`))
  await listed('/v1/templates/base/versions/1/files')
  for (const what of ['files', 'diff']) {
    assert.deepEqual(said(await asked(`/base/versions/1/${what}`)), [409, 'conflict', 'file_list_unavailable', false], what)
    assert.deepEqual(said(await asked(`/both/versions/9/${what}`)), [404, 'not_found', 'version_not_found', false], what)
    assert.deepEqual(said(await asked(`/absent/versions/1/${what}`)), [404, 'not_found', undefined, false], what)
  }
  const archive = async (slug: string) => said(await w.post(long(`/${slug}/archive`), undefined, { as: owner }))
  assert.deepEqual(await archive('base'), [422, 'validation_failed', 'platform_template_slug', false])
  assert.deepEqual(await archive('absent'), [404, 'not_found', undefined, false])
})
