import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { lstatSync, mkdirSync, mkdtempSync, readFileSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { LIMITS } from '../../contract/limits.ts'
import type { FileList } from '../../contract/schemas/cell/file.ts'
import { entryOf, sparseRecords, tarOf } from '../support/tars.ts'
import { type Bench, refusalOf } from './support/gateway.ts'
import { HOME, openTreeBench, q, revisionOf, sha, treeCalls } from './support/tree-calls.ts'

let bench: Bench
const folder = mkdtempSync(path.join(tmpdir(), 'tars-'))
before(async () => {
  bench = await openTreeBench()
})
after(async () => {
  rmSync(folder, { recursive: true, force: true })
  await bench[Symbol.asyncDispose]()
})

const { write, stat, list, mkdir, text, makes, refuses } = treeCalls(() => bench)
const put = (at: string, body: Buffer, more: Record<string, boolean> = {}, headers: Record<string, string> = {}) =>
  bench.call('PUT', `/files/tar?${q(at, more)}`, { body: new Uint8Array(body), headers })
const get = (at: string, more: Record<string, number> = {}) => bench.call('GET', `/files/tar?${q(at, more)}`)
const names = async (at: string) => ((await (await list(at)).json()) as FileList).entries.map(({ name }) => name)
const infoOf = async (at: string) => (await (await stat(at)).json()) as Record<string, unknown>

async function link(at: string[], target: string): Promise<void> {
  const { trees, workspace_id } = bench
  using publication = trees.begin(workspace_id)
  const base = (await trees.current(workspace_id))?.revision ?? 0
  await publication.publish(base, [{ kind: 'put', path: at, entry: { type: 'symlink', modified_ms: 1, target } }])
}

test('a directory is sent as a tar that tar(1) reads, and comes back the same', async () => {
  const long = 'n'.repeat(200)
  await makes(() => write(`${HOME}/out/sub/é.txt`, 'accents', { create_parents: true }), 200)
  await makes(() => write(`${HOME}/out/${long}`, 'long', { mode: '0755' }), 200)
  await makes(() => write(`${HOME}/out/empty`, ''), 200)
  await makes(() => write(`${HOME}/out/large`, new Uint8Array(6 << 20).fill(7)), 200)
  await makes(() => mkdir(`${HOME}/out/hollow`), 201)
  await link(['out', 'to'], 'sub/é.txt')
  const answer = await get(`${HOME}/out`)
  assert.deepEqual([answer.status, answer.headers.get('content-type')], [200, 'application/x-tar'])
  assert.equal(revisionOf(answer), revisionOf(await stat(HOME)))
  const tar = Buffer.from(await answer.arrayBuffer())
  const file = path.join(folder, 'out.tar')
  writeFileSync(file, tar)
  mkdirSync(path.join(folder, 'out'))
  execFileSync('tar', ['-xf', file, '-C', path.join(folder, 'out'), '--no-same-owner'])
  const at = (name: string) => path.join(folder, 'out', name)
  assert.deepEqual(
    [readFileSync(at('sub/é.txt'), 'utf8'), readFileSync(at(long), 'utf8'), readlinkSync(at('to'))],
    ['accents', 'long', 'sub/é.txt'],
  )
  assert.deepEqual(
    [lstatSync(at(long)).mode & 0o777, lstatSync(at('large')).size, lstatSync(at('hollow')).isDirectory()],
    [0o755, 6 << 20, true],
  )
  const modified_at = Date.parse(String((await infoOf(`${HOME}/out/empty`))['modified_at']))
  assert.equal(Math.round(lstatSync(at('empty')).mtimeMs), modified_at)
  const body = await makes(() => put(`${HOME}/back`, tar, { create_parents: true }), 200)
  assert.deepEqual(body, { path: `${HOME}/back`, entries: 7, bytes: 7 + 4 + (6 << 20), durable: true })
  const again = Buffer.from(await (await get(`${HOME}/back`)).arrayBuffer())
  assert.ok(again.equals(tar))
})

test('tar(1) archives in each format are unpacked, with hard links', async () => {
  const at = path.join(folder, 'in')
  mkdirSync(path.join(at, 'd'.repeat(90), 'e'.repeat(50)), { recursive: true })
  writeFileSync(path.join(at, 'd'.repeat(90), 'e'.repeat(50), 'f'), 'deep')
  writeFileSync(path.join(at, 'one'), 'one', { mode: 0o600 })
  execFileSync('ln', [path.join(at, 'one'), path.join(at, 'other')])
  symlinkSync('one', path.join(at, 'link'))
  for (const format of ['gnu', 'ustar', 'posix', 'oldgnu']) {
    const tar = execFileSync('tar', ['-c', `--format=${format}`, '-C', at, '.'], { maxBuffer: 1 << 20 })
    await makes(() => put(`${HOME}/in-${format}`, tar, { create_parents: true }), 200)
    const root = `${HOME}/in-${format}`
    assert.deepEqual(
      [await text(`${root}/${'d'.repeat(90)}/${'e'.repeat(50)}/f`), await text(`${root}/one`), await text(`${root}/other`)],
      ['deep', 'one', 'one'],
    )
    assert.deepEqual([(await infoOf(`${root}/link`))['target'], (await infoOf(`${root}/one`))['mode']], ['one', '0600'])
  }
})

test('unpacking is one revision: files are replaced, and directories keep their other entries', async () => {
  await makes(() => write(`${HOME}/over/keep`, 'kept', { create_parents: true }), 200)
  await makes(() => write(`${HOME}/over/d/old`, 'old', { create_parents: true }), 200)
  await makes(() => write(`${HOME}/over/d/both`, 'before'), 200)
  const tar = tarOf(entryOf('d/both', 'after'), entryOf('d/new/x', 'x'), entryOf('keep2', '2'), entryOf('keep2', '3'))
  await makes(() => put(`${HOME}/over`, tar), 200)
  assert.deepEqual(
    [await names(`${HOME}/over`), await names(`${HOME}/over/d`)],
    [
      ['d', 'keep', 'keep2'],
      ['both', 'new', 'old'],
    ],
  )
  assert.deepEqual([await text(`${HOME}/over/d/both`), await text(`${HOME}/over/keep2`)], ['after', '3'])
  const at = revisionOf(await stat(HOME))
  await refuses(() => put(`${HOME}/over`, tar, {}, { 'if-match': String(at - 1) }), '409 conflict/tree_revision_mismatch')
  const earlier = await get(`${HOME}/over`, { tree_revision: at - 1 })
  assert.deepEqual([earlier.status, (await earlier.text()).includes('keep2')], [200, false])
  await makes(() => put(`${HOME}/over`, tarOf()), 200)
})

test('an entry that leaves the target, or is no file, directory or link, refuses the whole tar', async () => {
  await makes(() => mkdir(`${HOME}/safe`), 201)
  await makes(() => write(`${HOME}/safe/file`, 'file'), 200)
  await makes(() => mkdir(`${HOME}/safe/dir`), 201)
  const good = entryOf('good', 'good')
  const bad: Record<string, Buffer[]> = {
    above: [entryOf('../x', 'x')],
    'above, in the middle': [entryOf('a/../../x', 'x')],
    absolute: [entryOf('/etc/passwd', 'x')],
    'a link that is absolute': [entryOf('l', '', { type: '2', target: '/etc' })],
    'a link that leads out': [entryOf('a/l', '', { type: '2', target: '../../x' })],
    'through a link': [entryOf('l', '', { type: '2', target: 'dir' }), entryOf('l/x', 'x')],
    'through a file': [entryOf('f', 'f'), entryOf('f/x', 'x')],
    'a hard link to what is not in it': [entryOf('h', '', { type: '1', target: 'file' })],
    'a hard link that leads out': [entryOf('h', '', { type: '1', target: '../x' })],
    'a device': [entryOf('d', '', { type: '3' })],
    'a FIFO': [entryOf('d', '', { type: '6' })],
    'a sparse file of an older format': [sparseRecords({ 'GNU.sparse.map': '0,1', 'GNU.sparse.size': '1' }), entryOf('d', 'x')],
    'a name that is none': [entryOf('a\u0001/' + 'b'.repeat(256), 'x')],
    'no name': [entryOf('./', 'x')],
    'a file that is a directory, too': [entryOf('t/x', 'x'), entryOf('t', 'x')],
  }
  for (const [what, entries] of Object.entries(bad)) {
    const response = await put(`${HOME}/safe`, tarOf(good, ...entries))
    assert.equal(await refusalOf(response), '422 validation_failed/invalid_path', what)
  }
  const whole = tarOf(good, entryOf('more', 'x'.repeat(2000)))
  const lying = Buffer.from(good)
  lying.write('77777777777\0', 124, 'latin1')
  const broken: Record<string, Buffer> = {
    'cut in a content': whole.subarray(0, 1024 + 512 + 700),
    'cut in a head': whole.subarray(0, 1024 + 100),
    'no tar': Buffer.from('no tar at all'),
    'no tar, of a block': Buffer.alloc(1024, 'x'),
    'a checksum that is wrong': lying,
    'an octal that is none': entryOf('x', 'x', { size: 'zzzzzzzzzzz' }),
    'a size below nothing': entryOf('x', 'x', { size: Buffer.from('ffffffffffffffffffffffff', 'hex') }),
    'a name that is not UTF-8': entryOf(Buffer.from([0x61, 0xff]), 'x'),
    'a record that is none': Buffer.concat([entryOf('pax', '99 path=x\n', { type: 'x' }), good]),
  }
  for (const [what, tar] of Object.entries(broken))
    assert.equal(await refusalOf(await put(`${HOME}/safe`, tar)), '422 validation_failed', what)
  const large = entryOf('x', '', { size: (LIMITS.tar.upload_bytes_max + 1).toString(8).padStart(11, '0') })
  assert.equal(await refusalOf(await put(`${HOME}/safe`, large)), '413 payload_too_large')
  await refuses(() => put(`${HOME}/safe`, tarOf(good, entryOf('dir', 'x'))), '409 conflict/not_a_file', {
    reason: 'not_a_file',
    path: `${HOME}/safe/dir`,
  })
  await refuses(() => put(`${HOME}/safe`, tarOf(good, entryOf('file/x', 'x'))), '409 conflict/not_a_directory')
  await refuses(() => put(`${HOME}/safe/file`, tarOf(good)), '409 conflict/not_a_directory')
  await refuses(() => put(`${HOME}/missing`, tarOf(good)), '404 not_found/path_not_found')
  await refuses(() => put('/etc', tarOf(good)), '422 validation_failed/outside_tree_root')
  assert.deepEqual(await names(`${HOME}/safe`), ['dir', 'file'])
  await makes(() => put(`${HOME}/safe`, tarOf(entryOf('l', '', { type: '2', target: '/etc' })), { links_out: true }), 200)
  assert.equal((await infoOf(`${HOME}/safe/l`))['target'], '/etc')
})

test('only a directory can be packed', async () => {
  assert.equal(await refusalOf(await get(`${HOME}/safe/file`)), '409 conflict/not_a_directory')
  assert.equal(await refusalOf(await get(`${HOME}/missing`)), '404 not_found/path_not_found')
  assert.equal(await refusalOf(await get('/etc')), '404 not_found/outside_tree_root')
  assert.equal(await refusalOf(await get(HOME, { tree_revision: 999_999 })), '404 not_found')
})

test('a tar with corrupt content breaks off and does not look complete', async () => {
  await makes(() => write(`${HOME}/damaged/a`, 'a'.repeat(100_000), { create_parents: true }), 200)
  await makes(() => write(`${HOME}/damaged/b`, 'lost'), 200)
  const { trees, workspace_id } = bench
  await trees.blobs(workspace_id).delete(sha('lost'))
  await assert.rejects(async () => (await get(`${HOME}/damaged`)).arrayBuffer())
})

test("a tar that would exceed the tree's disk is refused", async () => {
  const ceiling = (disk_gib: number) =>
    bench.database.superuser.updateTable('workspaces').set({ ceiling_disk_gib: disk_gib }).where('id', '=', bench.workspace_id).execute()
  await ceiling(0)
  await refuses(() => put(`${HOME}/safe`, tarOf(entryOf('x', 'x'))), '429 rate_limited/disk_full')
  await ceiling(1)
  assert.equal((await put(`${HOME}/safe`, tarOf(entryOf('x', 'x')))).status, 200)
})
