import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { after, before, test } from 'node:test'
import { LIMITS } from '../../contract/limits.ts'
import type { Bench } from './support/gateway.ts'
import { HOME, q, sha, openTreeBench, treeCalls } from './support/tree-calls.ts'

let bench: Bench
before(async () => {
  bench = await openTreeBench()
})
after(() => bench[Symbol.asyncDispose]())

const { write, read, stat, list, remove, mkdir, move, patch, search, text, makes, refuses, link } = treeCalls(() => bench)

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

test('every change makes the next revision, even with the same bytes; modes are kept or set', async () => {
  await makes(() => write(`${HOME}/m`, 'x', { mode: '600' }), 200)
  await makes(() => write(`${HOME}/m`, 'x'), 200)
  assert.equal(((await (await stat(`${HOME}/m`)).json()) as { mode: string }).mode, '0600')
  await makes(() => write(`${HOME}/m`, '', { mode: '0755' }), 200)
  assert.deepEqual([((await (await stat(`${HOME}/m`)).json()) as { mode: string }).mode, await text(`${HOME}/m`)], ['0755', ''])
  await refuses(() => write(`${HOME}/m`, 'x', { mode: '9' }), '422 validation_failed')
})

test('bytes are appended to a file, even beyond one of its pieces', async () => {
  const piece = new Uint8Array(LIMITS.file.write_bytes_max).fill(97)
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
  const large = new Uint8Array(LIMITS.file.write_bytes_max + 1)
  await refuses(() => write(`${HOME}/large`, large), '413 payload_too_large', {
    max_bytes: LIMITS.file.write_bytes_max,
  })
  await refuses(() => stat(`${HOME}/large`), '404 not_found/path_not_found')
  assert.equal((await read(`${HOME}/a.txt`)).status, 200)
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

test('only /home/user exists: a read of another path is 404, a change of it 422', async () => {
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
  for (const path of ['/', '/home', '/etc/.', `${HOME}/..`, `${HOME}/up/..`]) {
    for (const call of [
      () => remove(path, true),
      () => mkdir(path),
      () => write(path, 'x', { mode: path.includes('up') ? '644' : '9' }),
      () => patch(path, { content: 'x' }),
      () => move(path, `${HOME}/y`),
      () => move(`${HOME}/not-there`, path),
    ])
      await refuses(call, '422 validation_failed/outside_tree_root', details)
  }
  await refuses(() => patch('/', { edits: [] }), '422 validation_failed/outside_tree_root', details)
  for (const path of [HOME, `${HOME}/`, `${HOME}/.`, `${HOME}/x/..`]) {
    assert.equal((await list(path)).status, 200, path)
    await refuses(() => remove(path, true), '422 validation_failed/invalid_path')
    await refuses(() => move(path, `${HOME}/z`), '422 validation_failed/invalid_path')
  }
  assert.equal((await list('/home/../home/user')).status, 200)
})

test('an early refusal also returns the revision, to a caller with a token', async () => {
  await makes(() => write(`${HOME}/said`, 'x'), 200)
  await refuses(() => stat(`${HOME}/said`, { x: 1 }), '400 bad_request')
  await refuses(() => bench.call('POST', '/files/mkdir', { body: 'not JSON' }), '400 bad_request')
  await refuses(() => patch(`${HOME}/said`, { content: 'x'.repeat(LIMITS.file.patch_body_bytes_max) }), '413 payload_too_large')
  const stranger = await bench.call('GET', `/files/stat?${q(`${HOME}/said`)}`, { token: 'none' })
  assert.deepEqual([stranger.status, stranger.headers.has('x-tree-revision')], [401, false])
})

test('links are described and moved themselves, and followed by reads, writes and directories on the way', async () => {
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

test('names are UTF-8, 255 bytes at most, and listed in the order of their bytes', async () => {
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

test('a patch changes a file by edits or whole, and refuses impossible edits', async () => {
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

async function pagesOf(page: (cursor: object) => Promise<Response>, field: string): Promise<{ all: { path: string }[]; pages: number }> {
  const all: { path: string }[] = []
  for (let cursor = {}, pages = 1; ; pages++) {
    const response = await page(cursor)
    const body = (await response.json()) as Record<string, { path: string }[]> & { next_cursor: string | null; truncated: boolean }
    assert.deepEqual([response.status, body.truncated], [200, body.next_cursor !== null])
    all.push(...(body[field] ?? []))
    if (body.next_cursor === null) return { all, pages }
    cursor = { cursor: body.next_cursor }
  }
}

test('a list and a search continue from their cursors, and their pages are complete', async () => {
  for (const name of ['a/1', 'a/2/x', 'a.b', 'é', 'b/c']) await write(`${HOME}/cursors/${name}`, 'pin\nhay\npin', { create_parents: true })
  const paths = async (limit: number, recursive?: boolean) => {
    const { all, pages } = await pagesOf(
      (cursor) => list(`${HOME}/cursors`, { limit, ...(recursive ? { recursive } : {}), ...cursor }),
      'entries',
    )
    return [pages, ...all.map(({ path }) => path.replace(`${HOME}/cursors/`, ''))]
  }
  assert.deepEqual(await paths(3), [2, 'a', 'a.b', 'b', 'é'])
  assert.deepEqual(await paths(4), [1, 'a', 'a.b', 'b', 'é'])
  assert.deepEqual(await paths(1, true), [8, 'a', 'a/1', 'a/2', 'a/2/x', 'a.b', 'b', 'b/c', 'é'])
  const found = async (max_matches: number) =>
    pagesOf((cursor) => search({ path: `${HOME}/cursors`, pattern: 'pin', max_matches, ...cursor }), 'matches')
  const whole = await found(200)
  assert.deepEqual([whole.pages, whole.all.length], [1, 10])
  for (const max_matches of [1, 3, 9]) assert.deepEqual((await found(max_matches)).all, whole.all)
  await refuses(() => list(`${HOME}/cursors`, { cursor: 'eA' }), '400 bad_request')
  await refuses(() => search({ path: HOME, pattern: 'pin', cursor: 'eA' }), '400 bad_request')
})
