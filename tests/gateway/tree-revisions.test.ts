import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { findEntry } from '../../service/cell/filetree/trees/tree.ts'
import { type Bench, refusalOf } from './support/gateway.ts'
import { HOME, q, sha, revisionOf, openTreeBench, treeCalls } from './support/tree-calls.ts'

let bench: Bench
before(async () => {
  bench = await openTreeBench()
})
after(() => bench[Symbol.asyncDispose]())

const { write, read, stat, list, remove, mkdir, move, patch, search, text, makes, refuses } = treeCalls(() => bench)

test('If-Match binds a change to its expected revision', async () => {
  for (const body of ['one', 'two']) await write(`${HOME}/a.txt`, body)
  const at = revisionOf(await stat(HOME))
  for (const stale of [at - 1, at + 1, 0]) {
    for (const call of [
      (h: Record<string, string>) => write(`${HOME}/a.txt`, 'stale', {}, h),
      (h: Record<string, string>) => remove(`${HOME}/a.txt`, false, h),
      (h: Record<string, string>) => mkdir(`${HOME}/stale`, {}, h),
      (h: Record<string, string>) => move(`${HOME}/a.txt`, `${HOME}/stale`, false, h),
      (h: Record<string, string>) => patch(`${HOME}/a.txt`, { content: 'stale' }, h),
    ]) {
      const details = { reason: 'tree_revision_mismatch', current_tree_revision: at }
      await refuses(() => call({ 'if-match': String(stale) }), '409 conflict/tree_revision_mismatch', details)
    }
  }
  await makes(() => write(`${HOME}/a.txt`, 'now', {}, { 'if-match': String(at) }), 200)
  await makes(() => write(`${HOME}/a.txt`, 'again', {}, { 'if-match': `"${at + 1}"` }), 200)
  for (const unreadable of ['*', 'abc', '-1', '1.5', 'W/"1"', '"1', ''])
    assert.equal(await refusalOf(await write(`${HOME}/a.txt`, 'x', {}, { 'if-match': unreadable })), '400 bad_request', unreadable)
  assert.equal(revisionOf(await stat(HOME)), at + 2)
})

test('of concurrent changes with one If-Match one succeeds; without it all succeed, one after the other', async () => {
  const at = revisionOf(await stat(HOME))
  const all = await Promise.all(Array.from({ length: 6 }, (_, i) => write(`${HOME}/race`, String(i), {}, { 'if-match': String(at) })))
  assert.deepEqual(all.map(({ status }) => status).sort(), [200, 409, 409, 409, 409, 409])
  const free = await Promise.all(Array.from({ length: 8 }, (_, i) => write(`${HOME}/race-${i}`, String(i))))
  assert.deepEqual(
    free.map(revisionOf).sort((one, other) => one - other),
    Array.from({ length: 8 }, (_, i) => at + 2 + i),
  )
})

test('a repeat under an Idempotency-Key gets the first answer and does nothing; another request under it is refused', async () => {
  const headers = { 'idempotency-key': 'write:1' }
  const at = revisionOf(await stat(HOME))
  const first = await write(`${HOME}/keyed`, 'once', {}, { ...headers, 'if-match': String(at) })
  assert.deepEqual([first.status, first.headers.get('idempotent-replayed')], [200, null])
  await makes(() => write(`${HOME}/keyed`, 'meanwhile'), 200)
  const repeat = await write(`${HOME}/keyed`, 'once', {}, { ...headers, 'if-match': String(at) })
  assert.deepEqual([repeat.status, repeat.headers.get('idempotent-replayed'), revisionOf(repeat)], [200, 'true', revisionOf(first)])
  assert.deepEqual([await repeat.json(), await text(`${HOME}/keyed`)], [await first.json(), 'meanwhile'])
  for (const other of [
    () => write(`${HOME}/keyed`, 'twice', {}, headers),
    () => write(`${HOME}/keyed`, 'once', { append: true }, headers),
    () => write(`${HOME}/keyed2`, 'once', {}, headers),
    () => patch(`${HOME}/keyed`, { content: 'once' }, headers),
  ])
    await refuses(other, '409 conflict/operation_id_reused')
  const both = await Promise.all(
    [1, 2].map(() => patch(`${HOME}/keyed`, { edits: [{ old_text: 'mean', new_text: '' }] }, { 'idempotency-key': 'patch:1' })),
  )
  assert.deepEqual(both.map(({ headers: each }) => each.get('idempotent-replayed')).sort(), ['true', null].sort())
  assert.equal(await text(`${HOME}/keyed`), 'while')
  for (const key of ['a'.repeat(101), 'a b', 'é']) {
    const response = await write(`${HOME}/keyed`, 'x', {}, { 'idempotency-key': Buffer.from(key).toString('latin1') })
    assert.equal(await refusalOf(response), '422 validation_failed', key)
  }
})

test('an earlier revision can be read only while it is kept', async () => {
  const { tree_revision: before_write } = { tree_revision: revisionOf(await write(`${HOME}/history`, 'then')) }
  await write(`${HOME}/history`, 'now')
  const then = await read(`${HOME}/history`, { tree_revision: before_write })
  assert.deepEqual([await then.text(), revisionOf(then), await text(`${HOME}/history`)], ['then', before_write, 'now'])
  assert.equal(((await (await stat(`${HOME}/history`, { tree_revision: before_write })).json()) as { size: number }).size, 4)
  assert.equal((await list(HOME, { tree_revision: 0 })).status, 200)
  for (const call of [read, stat, list])
    assert.equal(await refusalOf(await call(`${HOME}/history`, { tree_revision: 999_999 })), '404 not_found')
  const entry = bench.table.entries.get(bench.workspace_id)
  assert.ok(entry)
  bench.table.set(bench.workspace_id, { ...bench.life.entry })
  for (const call of [read, stat, list])
    assert.equal(await refusalOf(await call(`${HOME}/history`, { tree_revision: 1 })), '422 validation_failed/not_supported_for_mode')
  bench.table.entries.set(bench.workspace_id, entry)
})

test('a search of a tree works as in a machine: globs, context, bounds, and RE2 expressions alone', async () => {
  for (const [name, content] of [
    ['s/one.txt', 'first\nneedle here\r\nlast\n'],
    ['s/two.md', 'é needle\nNEEDLE\n'],
    ['s/sub/three.txt', `${'x'.repeat(3000)}needle${'y'.repeat(3000)}`],
    ['s/bin', 'needle\0'],
  ] as const)
    await makes(() => write(`${HOME}/${name}`, content, { create_parents: true }), 200)
  const find = async (body: object) => {
    const response = await search({ path: `${HOME}/s`, pattern: 'needle', ...body })
    assert.equal(response.status, 200)
    assert.equal(revisionOf(response), revisionOf(await stat(HOME)))
    return (await response.json()) as {
      matches: { path: string; line: number; column: number; text: string; before: string[]; after: string[] }[]
      truncated: boolean
      stop_reason: string | null
      files_scanned: number
    }
  }
  const all = await find({ context_lines: 1 })
  assert.deepEqual(
    all.matches.map(({ path, line, column }) => [path.slice(HOME.length + 3), line, column]),
    [
      ['one.txt', 2, 1],
      ['sub/three.txt', 1, 3001],
      ['two.md', 1, 4],
    ],
  )
  assert.deepEqual([all.matches[0]?.before, all.matches[0]?.text, all.matches[0]?.after], [['first'], 'needle here', ['last']])
  assert.ok(all.matches[1]?.text.length === 1000 && all.matches[1].text.includes('needle'))
  assert.deepEqual([all.truncated, all.stop_reason, all.files_scanned], [false, null, 4])
  const paths = async (body: object) => (await find(body)).matches.map(({ path, line }) => `${path.slice(HOME.length + 3)}:${line}`)
  assert.deepEqual(await paths({ case_insensitive: true, include: ['*.md'] }), ['two.md:1', 'two.md:2'])
  assert.deepEqual(await paths({ include: ['*.txt'], exclude: ['sub/**'] }), ['one.txt:2'])
  assert.deepEqual(await paths({ regex: true, pattern: '^needle\\s+h[a-f]re$' }), ['one.txt:2'])
  const cut = await find({ max_matches: 1 })
  assert.deepEqual([cut.matches.length, cut.truncated, cut.stop_reason], [1, true, 'max_matches'])
  assert.deepEqual(
    await paths({ path: `${HOME}/s/one.txt` }),
    [':2'].map(() => 'one.txt:2'),
  )
  assert.deepEqual(await paths({ max_file_bytes: 100 }), ['one.txt:2', 'two.md:1'])
  for (const pattern of ['(a)\\1', '(?=a)', '(', 'a{1001}'])
    assert.equal(await refusalOf(await search({ path: HOME, pattern, regex: true })), '422 validation_failed', pattern)
  for (const glob of ['', '[', '{a', 'a}', '{a,{b,{c,{d}}}}'])
    assert.equal(await refusalOf(await search({ path: HOME, pattern: 'x', include: [glob] })), '422 validation_failed', glob)
  await makes(() => write(`${HOME}/s/slow`, `${'a'.repeat(40)}!`), 200)
  assert.deepEqual(await paths({ regex: true, pattern: '(a+)+$' }), [])
})

test('a tree that would exceed its disk is refused, and a removal frees capacity', async () => {
  const { superuser } = bench.database
  const ceiling = (disk_gib: number) =>
    superuser.updateTable('workspaces').set({ ceiling_disk_gib: disk_gib }).where('id', '=', bench.workspace_id).execute()
  await ceiling(0)
  await refuses(() => write(`${HOME}/more`, 'x'), '429 rate_limited/disk_full')
  await refuses(() => patch(`${HOME}/more`, { content: 'x' }), '429 rate_limited/disk_full')
  await makes(() => remove(`${HOME}/s`, true), 204)
  await ceiling(1)
  assert.equal((await write(`${HOME}/more`, 'x')).status, 200)
})

test('missing or corrupt content is an error, never other bytes', async () => {
  await makes(() => write(`${HOME}/fragile`, 'fragile content'), 200)
  const { trees, workspace_id } = bench
  const files = trees.blobs(workspace_id)
  await files.delete(sha('fragile content'))
  const response = await read(`${HOME}/fragile`)
  assert.deepEqual([response.status, response.headers.has('x-tree-revision')], [500, true])
  const { error } = (await response.json()) as { error: { code: string; message: string } }
  assert.deepEqual([error.code, error.message], ['internal_error', 'A part of the tree is missing'])
  await files.put([Buffer.from('fragile content')])
  assert.equal(await text(`${HOME}/fragile`), 'fragile content')
})

test('a call with a token of another workspace or without the tool does not reach the tree, nor does one after the delete', async () => {
  const { workspace_id, trees } = bench
  assert.equal(
    await refusalOf(await bench.call('GET', `/files?${q(HOME)}`, { token: await bench.token({ tools: ['exec'] }) })),
    '403 forbidden',
  )
  await bench.database.superuser
    .updateTable('workspaces')
    .set({ deleted_at: new Date(), desired_state: 'deleted', observed_state: 'deleting' })
    .where('id', '=', workspace_id)
    .execute()
  assert.equal(await refusalOf(await read(`${HOME}/a.txt`)), '401 unauthenticated/revoked_workspace')
  assert.equal(await refusalOf(await write(`${HOME}/a.txt`, 'x')), '401 unauthenticated/revoked_workspace')
  await trees.remove(workspace_id)
  assert.equal(await trees.current(workspace_id), null)
  assert.equal(
    await findEntry({ blobs: trees.blobs(workspace_id) }, { type: 'directory', mode: 0, modified_ms: 0, page: null }, ['x']),
    null,
  )
})
