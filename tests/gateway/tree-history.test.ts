import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import pino from 'pino'
import { LIMITS } from '../../contract/limits.ts'
import type { Changes } from '../../contract/schemas/cell/change.ts'
import type { TreeRevisions } from '../../contract/schemas/cell/tree.ts'
import { collectTree } from '../../service/cell/filetree/trees/collect.ts'
import { type Bench, refusalOf } from './support/gateway.ts'
import { HOME, openTreeBench, revisionOf, treeCalls } from './support/tree-calls.ts'

let bench: Bench
before(async () => {
  bench = await openTreeBench()
})
after(() => bench[Symbol.asyncDispose]())

const { write, read, stat, list, remove, mkdir, move, patch, text, makes, refuses, link } = treeCalls(() => bench)
const json = async <T>(response: Response) => (await response.json()) as T
const query = (asked: object) =>
  new URLSearchParams(Object.entries(asked).map(([name, value]) => [name, String(value)] as [string, string])).toString()
const revisions = async (asked: object = {}) => json<TreeRevisions>(await bench.call('GET', `/tree/revisions?${query(asked)}`))
const diffOf = (asked: object) => bench.call('GET', `/tree/diff?${query(asked)}`)
const diff = async (asked: object) => json<Changes>(await diffOf(asked))
const restore = (tree_revision: number, headers: Record<string, string> = {}) =>
  bench.call('POST', '/tree/restore', { json: { tree_revision }, headers })
const none = { added: 0, modified: 0, metadata: 0, deleted: 0, replaced: 0 }
const short = ({ data }: Changes) => data.map(({ path, change, type }) => `${change} ${type} ${path.slice(HOME.length + 1)}`)

test('each kept revision has its cause, its time and its number of changed entries', async () => {
  await makes(() => write(`${HOME}/d/a`, 'one', { create_parents: true }), 200)
  await makes(() => write(`${HOME}/d/a`, 'two'), 200)
  await makes(() => write(`${HOME}/d/b`, 'b'), 200)
  await makes(() => move(`${HOME}/d`, `${HOME}/e`), 200)
  await makes(() => mkdir(`${HOME}/x`), 201)
  await makes(() => patch(`${HOME}/e/a`, { edits: [{ old_text: 'two', new_text: 'three' }] }), 200)
  await makes(() => remove(`${HOME}/e`, true), 204)
  const { data, next_cursor } = await revisions()
  assert.deepEqual(
    data.map(({ tree_revision, entries, bytes, made_by, changes }) => [tree_revision, entries, bytes, made_by?.call ?? null, changes]),
    [
      [7, 1, 0, 'files.remove', { ...none, deleted: 1 }],
      [6, 4, 6, 'files.patch', { ...none, modified: 1 }],
      [5, 4, 4, 'files.mkdir', { ...none, added: 1 }],
      [4, 3, 4, 'files.move', { ...none, added: 3, deleted: 1 }],
      [3, 3, 4, 'files.write', { ...none, added: 1 }],
      [2, 2, 3, 'files.write', { ...none, modified: 1 }],
      [1, 2, 3, 'files.write', { ...none, added: 2 }],
      [0, 0, 0, null, null],
    ],
  )
  assert.deepEqual([next_cursor, data.every(({ created_at }) => created_at !== null)], [null, true])
})

test('revisions are listed page by page, and an invalid cursor is refused', async () => {
  const first = await revisions({ limit: 3 })
  const second = await revisions({ limit: 3, cursor: first.next_cursor })
  const third = await revisions({ limit: 3, cursor: second.next_cursor })
  const all = [first, second, third].flatMap(({ data }) => data.map(({ tree_revision }) => tree_revision))
  assert.deepEqual([all, third.next_cursor], [[7, 6, 5, 4, 3, 2, 1, 0], null])
  assert.equal(await refusalOf(await bench.call('GET', '/tree/revisions?cursor=abc')), '400 bad_request')
})

test('two revisions are compared, in either direction', async () => {
  assert.deepEqual(short(await diff({ from: 3, to: 6 })), [
    'deleted directory d',
    'added directory e',
    'added file e/a',
    'added file e/b',
    'added directory x',
  ])
  assert.deepEqual(short(await diff({ from: 6, to: 3 })), [
    'added directory d',
    'added file d/a',
    'added file d/b',
    'deleted directory e',
    'deleted directory x',
  ])
  assert.deepEqual(short(await diff({ from: 5, to: 6 })), ['modified file e/a'])
  assert.deepEqual(short(await diff({ from: 4, to: 4 })), [])
  const answer = await diffOf({ from: 0 })
  assert.deepEqual([revisionOf(answer), short(await json(answer))], [7, ['added directory x']])
  assert.deepEqual((await diff({ from: 3, to: 6, summary: true })).summary, { ...none, added: 4, deleted: 1, truncated: false })
})

test('a comparison tells changes of content, mode and time, type, and link apart', async () => {
  await makes(() => write(`${HOME}/k/same`, 'same', { create_parents: true }), 200)
  for (const name of ['content', 'mode', 'type']) await makes(() => write(`${HOME}/k/${name}`, name), 200)
  await link('to', '/home/user/a')
  const from = revisionOf(await stat(HOME))
  await makes(() => write(`${HOME}/k/content`, 'other'), 200)
  await makes(() => write(`${HOME}/k/mode`, 'mode', { mode: '0600' }), 200)
  await makes(() => remove(`${HOME}/k/type`), 204)
  await makes(() => mkdir(`${HOME}/k/type/sub`, { parents: true }), 201)
  await link('to', '/home/user/b')
  const told = await diff({ from })
  assert.deepEqual(short(told), [
    'modified file k/content',
    'metadata file k/mode',
    'replaced directory k/type',
    'added directory k/type/sub',
    'modified symlink to',
  ])
  const [content, mode] = told.data
  assert.deepEqual([content?.size, mode?.mode, /^[0-9a-f]{64}$/.test(content?.sha256 ?? '')], [5, '0600', true])
})

test('a comparison has pages, can be limited to a directory, and binds its cursor to both', async () => {
  const from = revisionOf(await stat(HOME))
  for (let i = 0; i < 12; i++) await makes(() => write(`${HOME}/p${i % 3}/f${i}`, 'x', { create_parents: true }), 200)
  const to = revisionOf(await stat(HOME))
  const whole = short(await diff({ from, to, limit: 1000 }))
  assert.equal(whole.length, 15)
  for (const path_prefix of [undefined, `${HOME}/p1`, `${HOME}/p1/f`]) {
    const filter = path_prefix === undefined ? {} : { path_prefix }
    const pages: string[] = []
    let page = await diff({ from, to, limit: 4, ...filter })
    for (; page.next_cursor !== null; page = await diff({ from, limit: 4, ...filter, cursor: page.next_cursor })) {
      assert.equal(page.data.length, 4)
      pages.push(...short(page))
      await write(`${HOME}/p0/more`, 'x')
    }
    pages.push(...short(page))
    assert.deepEqual(
      pages,
      whole.filter((line) => `${HOME}/${line.split(' ')[2]}`.startsWith(path_prefix ?? '')),
    )
  }
  const { next_cursor: cursor } = await diff({ from, to, limit: 4 })
  for (const other of [{ from: from + 1 }, { from, to: to - 1 }, { from, path_prefix: HOME }, { from, cursor: `${cursor}x` }])
    assert.equal(await refusalOf(await diffOf({ cursor, ...other })), '400 bad_request', JSON.stringify(other))
})

test('an earlier revision can be made the next one, and If-Match binds this to the current one', async () => {
  const then = revisionOf(await write(`${HOME}/back`, 'then'))
  await makes(() => write(`${HOME}/back`, 'now'), 200)
  await makes(() => write(`${HOME}/new`, 'new'), 200)
  const at = revisionOf(await stat(HOME))
  await refuses(() => restore(then, { 'if-match': String(at - 1) }), '409 conflict/tree_revision_mismatch')
  const body = await makes(() => restore(then, { 'if-match': String(at) }), 200)
  assert.deepEqual(body, { tree_revision: at + 1, restored_revision: then })
  assert.deepEqual([await text(`${HOME}/back`), (await read(`${HOME}/new`)).status], ['then', 404])
  assert.deepEqual(short(await diff({ from: then, to: at + 1 })), [])
  const [latest] = (await revisions({ limit: 1 })).data
  assert.deepEqual([latest?.made_by?.call, latest?.changes], ['tree.restore', { ...none, modified: 1, deleted: 1 }])
  await makes(() => restore(at + 1), 200)
  await makes(() => restore(at), 200)
  assert.deepEqual([await text(`${HOME}/back`), await text(`${HOME}/new`)], ['now', 'new'])
  await makes(() => restore(0), 200)
  assert.deepEqual((await json<{ entries: object[] }>(await list(HOME))).entries, [])
  await makes(() => restore(at), 200)
  assert.equal(await text(`${HOME}/new`), 'new')
})

test('a revision that is larger than the disk is not restored', async () => {
  const at = revisionOf(await stat(HOME))
  await makes(() => restore(0), 200)
  const ceiling = (disk_gib: number) =>
    bench.database.superuser.updateTable('workspaces').set({ ceiling_disk_gib: disk_gib }).where('id', '=', bench.workspace_id).execute()
  await ceiling(0)
  await refuses(() => restore(at), '429 rate_limited/disk_full')
  await ceiling(1)
  await makes(() => restore(at), 200)
  assert.equal(await text(`${HOME}/new`), 'new')
})

test('an invalid body or parameter of a restore is refused', async () => {
  const at = revisionOf(await stat(HOME))
  const headers = { 'content-type': 'application/json' }
  const send = async (body: string) => refusalOf(await bench.call('POST', '/tree/restore', { body, headers }))
  for (const body of ['', '{', '{"nonsense":1}']) assert.equal(await send(body), '400 bad_request', body)
  for (const body of ['[]', '{"tree_revision":-1}', '{"tree_revision":"1"}']) assert.equal(await send(body), '422 validation_failed', body)
  assert.equal(await send(' '.repeat(LIMITS.json.body_bytes_max + 1)), '413 payload_too_large')
  for (const asked of ['', 'from=-1', 'from=0&to=x', 'from=0&limit=0', 'from=0&nonsense=1'])
    assert.equal(await refusalOf(await bench.call('GET', `/tree/diff?${asked}`)), '400 bad_request', asked)
  assert.equal(await refusalOf(await bench.call('GET', '/tree/revisions?limit=0')), '400 bad_request')
  assert.equal(revisionOf(await stat(HOME)), at)
})

test('a revision that is not kept cannot be compared, restored or listed', async () => {
  const at = revisionOf(await stat(HOME))
  const { trees, clock, database, cell_id, workspace_id } = bench
  clock.ahead_ms += (LIMITS.tree.revisions_kept_seconds_default + LIMITS.tree.blob_grace_seconds + 60) * 1000
  await collectTree({ db: database.cell, clock, trees, cell_id, log: pino({ level: 'silent' }), quarantine_days: 7 }, workspace_id)
  const token = await bench.token()
  for (const call of [
    () => bench.call('GET', `/tree/diff?from=${at - 1}`, { token }),
    () => bench.call('GET', `/tree/diff?from=${at}&to=${at + 1}`, { token }),
    () => bench.call('POST', '/tree/restore', { token, json: { tree_revision: at - 1 } }),
    () => bench.call('POST', '/tree/restore', { token, json: { tree_revision: at + 1 } }),
  ]) {
    const response = await call()
    assert.equal(response.headers.has('x-tree-revision'), true)
    assert.equal(await refusalOf(response), '404 not_found')
  }
  const { data } = await json<TreeRevisions>(await bench.call('GET', '/tree/revisions', { token }))
  assert.deepEqual(
    data.map(({ tree_revision }) => tree_revision),
    [at],
  )
})

test('a workspace with a machine has no revisions, and reading them needs the tool', async () => {
  const entry = bench.table.entries.get(bench.workspace_id)
  assert.ok(entry)
  const token = await bench.token({ tools: ['exec'] })
  const calls: ((token?: string) => Promise<Response>)[] = [
    (t) => bench.call('GET', '/tree/revisions', t === undefined ? {} : { token: t }),
    (t) => bench.call('GET', '/tree/diff?from=0', t === undefined ? {} : { token: t }),
    (t) => bench.call('POST', '/tree/restore', { json: { tree_revision: 0 }, ...(t === undefined ? {} : { token: t }) }),
  ]
  for (const call of calls) assert.equal(await refusalOf(await call(token)), '403 forbidden')
  bench.table.set(bench.workspace_id, { ...bench.life.entry })
  for (const call of calls) assert.equal(await refusalOf(await call()), '409 conflict/not_supported_for_mode')
  bench.table.entries.set(bench.workspace_id, entry)
})
