import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { after, before, test } from 'node:test'
import { LIMITS } from '../../contract/limits.ts'
import { findEntry } from '../../service/cell/trees/tree.ts'
import { type Bench, openBench, refusalOf } from './support/gateway.ts'

let bench: Bench
before(async () => {
  bench = await openBench()
  await asTree(bench)
})
after(() => bench[Symbol.asyncDispose]())

/** The bench's workspace becomes a file-first one, with a tree that is empty. */
async function asTree({ database: { superuser: db }, workspace_id, table, clock }: Bench): Promise<void> {
  const now = clock.now()
  await db.updateTable('workspaces').set({ mode: 'file_first', tree_revision: 0 }).where('id', '=', workspace_id).execute()
  await db.insertInto('trees').values({ workspace_id, root: null, created_at: now, updated_at: now }).execute()
  table.set(workspace_id, { mode: 'file_first', machine: null })
}

const HOME = '/home/user'
const q = (path: string, more: Record<string, string | number | boolean> = {}) =>
  new URLSearchParams({ path, ...Object.fromEntries(Object.entries(more).map(([name, value]) => [name, String(value)])) }).toString()
const sha = (text: string) => createHash('sha256').update(text).digest('hex')
const revisionOf = (response: Response) => Number(response.headers.get('x-tree-revision'))

const write = (
  path: string,
  body: string | Uint8Array<ArrayBuffer>,
  more: Record<string, string | number | boolean> = {},
  headers: Record<string, string> = {},
) => bench.call('PUT', `/files?${q(path, more)}`, { body, headers })
const read = (path: string, more: Record<string, number> = {}, headers: Record<string, string> = {}) =>
  bench.call('GET', `/files?${q(path, more)}`, { headers })
const stat = (path: string, more: Record<string, number | boolean> = {}) => bench.call('GET', `/files/stat?${q(path, more)}`)
const list = (path: string, more: Record<string, number> = {}) => bench.call('GET', `/files/list?${q(path, more)}`)
const remove = (path: string, recursive = false, headers: Record<string, string> = {}) =>
  bench.call('DELETE', `/files?${q(path, { recursive })}`, { headers })
const mkdir = (path: string, more: object = {}, headers: Record<string, string> = {}) =>
  bench.call('POST', '/files/mkdir', { json: { path, ...more }, headers })
const move = (from: string, to: string, overwrite = false, headers: Record<string, string> = {}) =>
  bench.call('POST', '/files/move', { json: { from, to, overwrite }, headers })
const patch = (path: string, body: object, headers: Record<string, string> = {}) =>
  bench.call('POST', '/files/patch', { json: { path, ...body }, headers })
const search = (body: object) => bench.call('POST', '/files/search', { json: body })
const text = async (path: string) => (await read(path)).text()

/** The revision that a call has made is the next one. */
async function makes<T>(call: () => Promise<Response>, status: number): Promise<T> {
  const before_call = revisionOf(await stat(HOME))
  const response = await call()
  const body = response.status === 204 ? '' : await response.text()
  assert.deepEqual([response.status, revisionOf(response)], [status, before_call + 1], body)
  assert.equal(revisionOf(await stat(HOME)), before_call + 1)
  return (body === '' ? null : JSON.parse(body)) as T
}

/** Refuses, says the revision, and changes nothing. */
async function refuses(call: () => Promise<Response>, expected: string, details?: object): Promise<void> {
  const at = revisionOf(await stat(HOME))
  const response = await call()
  const copy = response.clone()
  assert.equal(await refusalOf(response), expected)
  assert.deepEqual([revisionOf(response), revisionOf(await stat(HOME))], [at, at], expected)
  if (details !== undefined) assert.deepEqual(((await copy.json()) as { error: { details: object } }).error.details, details)
}

const link = async (name: string, target: string) => {
  const { trees, workspace_id } = bench
  using publication = trees.begin(workspace_id)
  const base = (await trees.current(workspace_id))?.revision ?? 0
  await publication.publish(base, [{ kind: 'put', path: [name], entry: { type: 'symlink', modified_ms: 1, target } }])
}

test('a file is written, read whole and in parts, described and listed', async () => {
  const written = await makes<Record<string, unknown>>(() => write(`${HOME}/a.txt`, 'hello tree'), 200)
  assert.deepEqual(written, {
    path: `${HOME}/a.txt`,
    bytes_written: 10,
    sha256: sha('hello tree'),
    durable: true,
    revision: sha('hello tree'),
  })
  const whole = await read(`${HOME}/a.txt`)
  const said = ['content-length', 'content-type', 'x-file-size', 'x-file-revision'].map((name) => whole.headers.get(name))
  assert.deepEqual(
    [whole.status, await whole.text(), ...said],
    [200, 'hello tree', '10', 'application/octet-stream', '10', sha('hello tree')],
  )
  assert.equal(whole.headers.has('x-tree-revision'), true)
  const part = await read(`${HOME}/a.txt`, { offset: 6, length: 2 })
  assert.deepEqual([part.status, await part.text()], [200, 'tr'])
  const range = await read(`${HOME}/a.txt`, {}, { range: 'bytes=6-99' })
  assert.deepEqual([range.status, await range.text(), range.headers.get('content-range')], [206, 'tree', 'bytes 6-9/10'])
  for (const given of ['bytes=10-11', 'bytes=-2', 'bytes=0-1,3-4'])
    await refuses(() => read(`${HOME}/a.txt`, {}, { range: given }), '416 range_not_satisfiable', { size: 10 })
  await refuses(() => read(`${HOME}/a.txt`, { offset: 11 }), '416 range_not_satisfiable')
  assert.equal(await (await read(`${HOME}/a.txt`, { offset: 10 })).text(), '')
  const info = (await (await stat(`${HOME}/a.txt`, { revision: true })).json()) as Record<string, unknown>
  const { modified_at, ...rest } = info
  assert.deepEqual(rest, { path: `${HOME}/a.txt`, name: 'a.txt', type: 'file', size: 10, mode: '0644', revision: sha('hello tree') })
  assert.ok(Math.abs(Date.parse(String(modified_at)) - Date.now()) < 60_000)
  const entries = (await (await list(HOME)).json()) as { entries: { name: string }[]; truncated: boolean }
  assert.deepEqual([entries.entries.map(({ name }) => name), entries.truncated], [['a.txt'], false])
})

test('every change makes the next revision, also with the same bytes; modes are kept, or set', async () => {
  await makes(() => write(`${HOME}/m`, 'x', { mode: '600' }), 200)
  await makes(() => write(`${HOME}/m`, 'x'), 200)
  assert.equal(((await (await stat(`${HOME}/m`)).json()) as { mode: string }).mode, '0600')
  await makes(() => write(`${HOME}/m`, '', { mode: '0755' }), 200)
  assert.deepEqual([((await (await stat(`${HOME}/m`)).json()) as { mode: string }).mode, await text(`${HOME}/m`)], ['0755', ''])
  await refuses(() => write(`${HOME}/m`, 'x', { mode: '9' }), '422 validation_failed')
})

test('bytes are added to a file, also beyond what one piece of it holds', async () => {
  const piece = new Uint8Array(LIMITS.file_write_bytes_max).fill(97)
  await makes(() => write(`${HOME}/log`, 'begin', { append: true }), 200)
  let expected = 'begin'
  for (const added of ['', ' and on', 'é']) {
    expected += added
    const body = await makes<{ revision: string; sha256: string; bytes_written: number }>(
      () => write(`${HOME}/log`, added, { append: true }),
      200,
    )
    assert.deepEqual([body.revision, body.sha256, body.bytes_written], [sha(expected), sha(added), Buffer.byteLength(added)])
  }
  for (let i = 0; i < 3; i++) await makes(() => write(`${HOME}/log`, piece, { append: true }), 200)
  const whole = Buffer.concat([Buffer.from(expected), piece, piece, piece])
  const got = await read(`${HOME}/log`)
  assert.equal(got.headers.get('x-file-revision'), null, 'above 16 MiB')
  assert.ok(whole.equals(Buffer.from(await got.arrayBuffer())))
  const at = 4 * 2 ** 20 - 3
  assert.deepEqual(Buffer.from(await (await read(`${HOME}/log`, { offset: at, length: 9 })).arrayBuffer()), whole.subarray(at, at + 9))
  const info = (await (await stat(`${HOME}/log`, { revision: true })).json()) as { revision: string; size: number }
  assert.deepEqual([info.revision, info.size], [createHash('sha256').update(whole).digest('hex'), whole.length])
  await makes(() => remove(`${HOME}/log`), 204)
})

test('a body that is too large is refused and changes nothing', async () => {
  const large = new Uint8Array(LIMITS.file_write_bytes_max + 1)
  await refuses(() => write(`${HOME}/large`, large), '413 payload_too_large', {
    max_bytes: LIMITS.file_write_bytes_max,
  })
  await refuses(() => stat(`${HOME}/large`), '404 not_found/path_not_found')
})

test('directories are made, with their parents, moved, and removed', async () => {
  const made = await makes<{ type: string; mode: string }>(() => mkdir(`${HOME}/d`, { mode: '700' }), 201)
  assert.deepEqual([made.type, made.mode], ['directory', '0700'])
  await refuses(() => mkdir(`${HOME}/d`), '409 conflict/already_exists')
  await refuses(() => mkdir(`${HOME}/x/y/z`), '404 not_found/path_not_found')
  await makes(() => mkdir(`${HOME}/x/y/z`, { parents: true }), 201)
  await makes(() => mkdir(`${HOME}/x/y/z/`, { parents: true }), 201)
  await makes(() => write(`${HOME}/p/q/r.txt`, 'deep', { create_parents: true }), 200)
  await refuses(() => write(`${HOME}/none/r.txt`, 'deep'), '404 not_found/path_not_found')
  await refuses(() => mkdir(`${HOME}/a.txt/b`, { parents: true }), '409 conflict/not_a_directory')
  await refuses(() => write(`${HOME}/a.txt/b`, 'x'), '409 conflict/not_a_directory')
  await refuses(() => write(`${HOME}/d`, 'x'), '409 conflict/not_a_file')
  await refuses(() => write(`${HOME}/new/`, 'x'), '422 validation_failed/invalid_path')
  await refuses(() => read(`${HOME}/d`), '409 conflict/not_a_file')
  await refuses(() => read(`${HOME}/a.txt/b`), '409 conflict/not_a_directory')
  await refuses(() => stat(`${HOME}/a.txt/b`), '409 conflict/not_a_directory')
  await refuses(() => list(`${HOME}/a.txt`), '409 conflict/not_a_directory')
  const moved = await makes<{ path: string; type: string }>(() => move(`${HOME}/p`, `${HOME}/d/p2`), 200)
  assert.deepEqual([moved.path, moved.type, await text(`${HOME}/d/p2/q/r.txt`)], [`${HOME}/d/p2`, 'directory', 'deep'])
  await refuses(() => stat(`${HOME}/p`), '404 not_found/path_not_found')
  await refuses(() => move(`${HOME}/p`, `${HOME}/p3`), '404 not_found/path_not_found')
  await refuses(() => move(`${HOME}/d`, `${HOME}/d/p2/in`), '422 validation_failed/invalid_path')
  await refuses(() => move(`${HOME}/a.txt`, `${HOME}/m`), '409 conflict/already_exists')
  await refuses(() => move(`${HOME}/a.txt`, `${HOME}/d`, true), '409 conflict/not_a_file')
  await refuses(() => move(`${HOME}/x`, `${HOME}/a.txt`, true), '409 conflict/not_a_directory')
  await refuses(() => move(`${HOME}/x`, `${HOME}/d`, true), '409 conflict/not_empty')
  await makes(() => move(`${HOME}/a.txt`, `${HOME}/a.txt`, true), 200)
  await makes(() => move(`${HOME}/m`, `${HOME}/a.txt`, true), 200)
  await refuses(() => remove(`${HOME}/d`), '409 conflict/not_empty')
  await refuses(() => remove(`${HOME}/a.txt/b`), '409 conflict/not_a_directory')
  await makes(() => remove(`${HOME}/d`, true), 204)
  await refuses(() => remove(`${HOME}/d`, true), '404 not_found/path_not_found')
  await makes(() => remove(`${HOME}/x/y/z`), 204)
})

test('only what is below /home/user exists: a read of another path is 404, a change of it 422', async () => {
  const details = { reason: 'outside_tree_root', tree_root: HOME }
  await link('out', '/etc')
  await link('up', '../..')
  for (const path of ['/', '/etc/passwd', '/home', '/home/other/x', `${HOME}/../x`, `${HOME}/out/x`, `${HOME}/up/x`, '/home/userx']) {
    for (const call of [() => read(path), () => stat(`${path}/`), () => list(path), () => search({ path, pattern: 'x' })])
      await refuses(call, '404 not_found/outside_tree_root', details)
    const name = path === '/' ? '/x' : `${path}/x`
    for (const call of [
      () => write(name, 'x'),
      () => write(name, 'x', { create_parents: true }),
      () => remove(name),
      () => mkdir(name, { parents: true }),
      () => patch(name, { content: 'x' }),
      () => move(name, `${HOME}/y`),
      () => move(`${HOME}/a.txt`, name),
    ])
      await refuses(call, '422 validation_failed/outside_tree_root', details)
  }
  await refuses(() => write(`${HOME}/out`, 'x'), '422 validation_failed/outside_tree_root', details)
  for (const path of [HOME, `${HOME}/`, `${HOME}/.`, `${HOME}/x/..`]) {
    assert.equal((await list(path)).status, 200, path)
    await refuses(() => remove(path, true), '422 validation_failed/invalid_path')
    await refuses(() => move(path, `${HOME}/z`), '422 validation_failed/invalid_path')
  }
  assert.equal((await list('/home/../home/user')).status, 200)
})

test('links are links: they are described and moved themselves, and followed by reads, writes and directories on the way', async () => {
  await makes(() => mkdir(`${HOME}/real`), 201)
  await link('to', 'real')
  await link('loop', 'loop')
  await link('nowhere', 'real/none')
  await link('abs', `${HOME}/real/f`)
  await makes(() => write(`${HOME}/to/f`, 'one'), 200)
  await makes(() => write(`${HOME}/abs`, 'two'), 200)
  assert.deepEqual([await text(`${HOME}/real/f`), await text(`${HOME}/abs`)], ['two', 'two'])
  const info = (await (await stat(`${HOME}/to`)).json()) as Record<string, unknown>
  assert.deepEqual([info['type'], info['target'], info['mode'], info['size']], ['symlink', 'real', '0777', 4])
  assert.equal(((await (await stat(`${HOME}/to/`)).json()) as { type: string }).type, 'directory')
  const { entries } = (await (await list(`${HOME}/to`)).json()) as { entries: { path: string }[] }
  assert.deepEqual(
    entries.map(({ path }) => path),
    [`${HOME}/to/f`],
  )
  for (const call of [
    () => read(`${HOME}/loop`),
    () => stat(`${HOME}/loop/x`),
    () => write(`${HOME}/loop`, 'x'),
    () => list(`${HOME}/loop`),
  ])
    await refuses(call, '422 validation_failed/invalid_path')
  await refuses(() => read(`${HOME}/nowhere`), '404 not_found/path_not_found')
  await makes(() => write(`${HOME}/nowhere`, 'made'), 200)
  assert.equal(await text(`${HOME}/real/none`), 'made')
  await makes(() => move(`${HOME}/to`, `${HOME}/to2`), 200)
  assert.equal(((await (await stat(`${HOME}/to2`)).json()) as { type: string }).type, 'symlink')
  await makes(() => remove(`${HOME}/to2`), 204)
  assert.equal(await text(`${HOME}/real/f`), 'two', 'a link is removed, not what it points at')
})

test('names are UTF-8, 255 bytes at most, and come in the order of their bytes', async () => {
  await makes(() => mkdir(`${HOME}/names`), 201)
  for (const name of ['é', 'z', '日本', 'a b', '%', '+', 'x'.repeat(255)]) await makes(() => write(`${HOME}/names/${name}`, name), 200)
  const { entries } = (await (await list(`${HOME}/names`)).json()) as { entries: { name: string }[] }
  assert.deepEqual(
    entries.map(({ name }) => name),
    ['%', '+', 'a b', 'x'.repeat(255), 'z', 'é', '日本'],
  )
  const cut = (await (await list(`${HOME}/names`, { limit: 3 })).json()) as { entries: unknown[]; truncated: boolean }
  assert.deepEqual([cut.entries.length, cut.truncated], [3, true])
  await refuses(() => write(`${HOME}/names/${'é'.repeat(128)}`, 'x'), '422 validation_failed/invalid_path')
  await refuses(() => bench.call('PUT', '/files?path=/home/user/%FF', { body: 'x' }), '422 validation_failed/invalid_path')
  await refuses(() => bench.call('GET', '/files?path=relative'), '422 validation_failed/invalid_path')
})

test('a patch changes a file by edits or whole, and refuses what it cannot do', async () => {
  const path = `${HOME}/code.py`
  const created = await makes<Record<string, unknown>>(() => patch(path, { content: 'a = 1\nb = 1\n', expected_revision: 'absent' }), 200)
  assert.deepEqual([created['revision'], created['previous_revision'], created['replacements']], [sha('a = 1\nb = 1\n'), null, 0])
  const edited = await makes<Record<string, unknown>>(
    () => patch(path, { edits: [{ old_text: 'a = 1', new_text: 'a = 2' }], expected_revision: sha('a = 1\nb = 1\n') }),
    200,
  )
  assert.deepEqual([edited['previous_revision'], edited['replacements'], edited['bytes_written']], [sha('a = 1\nb = 1\n'), 1, 12])
  assert.deepEqual((edited['file'] as { revision: string }).revision, sha('a = 2\nb = 1\n'))
  await makes(() => patch(path, { edits: [{ old_text: ' = ', new_text: '=', replace_all: true }] }), 200)
  assert.equal(await text(path), 'a=2\nb=1\n')
  await refuses(() => patch(path, { edits: [{ old_text: 'none', new_text: '' }] }), '422 validation_failed/edit_not_found', {
    reason: 'edit_not_found',
    index: 0,
  })
  await refuses(() => patch(path, { edits: [{ old_text: '=', new_text: '' }] }), '422 validation_failed/edit_ambiguous')
  await refuses(() => patch(path, { content: 'x', expected_revision: sha('other') }), '409 conflict/revision_mismatch', {
    reason: 'revision_mismatch',
    current_revision: sha('a=2\nb=1\n'),
  })
  await refuses(() => patch(`${HOME}/none.py`, { content: 'x', expected_revision: sha('other') }), '409 conflict/revision_mismatch', {
    reason: 'revision_mismatch',
  })
  await refuses(() => patch(`${HOME}/none.py`, { edits: [{ old_text: 'x', new_text: '' }] }), '404 not_found/path_not_found')
  await refuses(() => patch(`${HOME}/real`, { content: 'x' }), '409 conflict/not_a_file')
  await refuses(() => patch(`${path}/x`, { content: 'x' }), '409 conflict/not_a_directory')
  await makes(() => write(`${HOME}/binary`, new Uint8Array([0, 255])), 200)
  await refuses(() => patch(`${HOME}/binary`, { edits: [{ old_text: 'x', new_text: '' }] }), '422 validation_failed/edit_not_text')
  for (const body of [
    {},
    { edits: [] },
    { edits: [{ old_text: '', new_text: 'x' }] },
    { content: 'x', edits: [{ old_text: 'a', new_text: 'b' }] },
  ])
    await refuses(() => patch(path, body), '422 validation_failed/patch_invalid')
})

test('If-Match holds a change to the revision that it was made for', async () => {
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

test('of changes that come at once with one If-Match one is made; without it all are, one after the other', async () => {
  const at = revisionOf(await stat(HOME))
  const all = await Promise.all(Array.from({ length: 6 }, (_, i) => write(`${HOME}/race`, String(i), {}, { 'if-match': String(at) })))
  assert.deepEqual(all.map(({ status }) => status).sort(), [200, 409, 409, 409, 409, 409])
  const free = await Promise.all(Array.from({ length: 8 }, (_, i) => write(`${HOME}/race-${i}`, String(i))))
  assert.deepEqual(
    free.map(revisionOf).sort((one, other) => one - other),
    Array.from({ length: 8 }, (_, i) => at + 2 + i),
  )
})

test('a repeat under an Idempotency-Key is answered as before and does nothing; another request under it is refused', async () => {
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

test('an earlier revision is read while it is kept, and no other', async () => {
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

test('lines are found as in a machine: globs, context, bounds, and expressions of RE2 alone', async () => {
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

test('a tree that would be larger than its disk is refused, and what is removed makes room', async () => {
  const { superuser } = bench.database
  const ceiling = (disk_gib: number) =>
    superuser.updateTable('workspaces').set({ ceiling_disk_gib: disk_gib }).where('id', '=', bench.workspace_id).execute()
  await ceiling(0)
  await refuses(() => write(`${HOME}/more`, 'x'), '429 rate_limited/disk_full')
  await refuses(() => patch(`${HOME}/more`, { content: 'x' }), '429 rate_limited/disk_full')
  await makes(() => remove(`${HOME}/s`, true), 204)
  await ceiling(1)
})

test('what is missing or damaged in the store is an error that says so, never other bytes', async () => {
  await makes(() => write(`${HOME}/fragile`, 'fragile content'), 200)
  const { trees, workspace_id } = bench
  const files = trees.files(workspace_id)
  await files.delete(sha('fragile content'))
  const response = await read(`${HOME}/fragile`)
  assert.deepEqual([response.status, response.headers.has('x-tree-revision')], [500, true])
  const { error } = (await response.json()) as { error: { code: string; message: string } }
  assert.deepEqual([error.code, error.message], ['internal_error', 'A part of the tree is missing'])
  await files.put([Buffer.from('fragile content')])
  assert.equal(await text(`${HOME}/fragile`), 'fragile content')
})

test('a call whose token is of another workspace or lacks the tool does not reach the tree, nor one after the delete', async () => {
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
