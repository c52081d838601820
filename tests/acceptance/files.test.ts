import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { connect } from 'node:net'
import { after, before, test } from 'node:test'
import type { FileInfo, FileList, WriteResult } from '../../contract/schemas/cell/file.ts'
import { type Client, createClient, detailsOf, type OpenedWorkspace, refusalOf } from '../support/client.ts'
import { depth } from '../support/depth.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'

let service: SharedService
let client: Client
let workspace: OpenedWorkspace

before(async () => {
  service = await sharedService()
  client = createClient(service.base_url, service.api_key)
  workspace = await client.open('files')
})
after(async () => {
  await service.stop()
})

const sha256 = (bytes: string | Buffer) => createHash('sha256').update(bytes).digest('hex')
const at = (path: string, route = '/files') => `${route}?path=${encodeURIComponent(path)}`
const get = <T = Record<string, unknown>>(path: string, query = '', headers = {}) =>
  client.tool<T>(workspace, `${at(path)}${query}`, { headers })
const put = <T = WriteResult>(path: string, bytes: string | Buffer, query = '') =>
  client.tool<T>(workspace, `${at(path)}${query}`, { method: 'PUT', bytes: Buffer.from(bytes) })
const remove = (path: string, query = '') => client.tool(workspace, `${at(path)}${query}`, { method: 'DELETE' })
const post = <T = FileInfo>(route: string, json: object) => client.tool<T>(workspace, `/files/${route}`, { json })
const stat = <T = FileInfo>(path: string, query = '') => client.tool<T>(workspace, `${at(path, '/files/stat')}${query}`)
const list = (path: string, query = '') => client.tool<FileList>(workspace, `${at(path, '/files/list')}${query}`)
const sh = async (script: string) => {
  const { exit, stderr, stdout } = await client.run(workspace, ['bash', '-ec', script])
  assert.equal(exit.exit_code, 0, stderr)
  return stdout
}
/** A refusal must be immediate: an open of a FIFO without a peer never returns. */
const quickly = async <T>(work: () => Promise<T>): Promise<T> => {
  const begun = performance.now()
  const result = await work()
  assert.ok(performance.now() - begun < 10_000, `${performance.now() - begun} ms`)
  return result
}

test('writes support append, mode and create_parents; reads return size and revision, also of an empty file', async () => {
  const { status, body } = await put('/home/user/a/b/f', 'hello', '&create_parents=true&mode=0600')
  assert.deepEqual(
    [status, body],
    [200, { path: '/home/user/a/b/f', bytes_written: 5, sha256: sha256('hello'), durable: true, revision: sha256('hello') }],
  )
  const appended = await put('/home/user/a/b/f', '!', '&append=true')
  assert.deepEqual([appended.body.revision, appended.body.sha256, appended.body.bytes_written], [sha256('hello!'), sha256('!'), 1])
  assert.equal(await sh('stat -c "%a %U" a/b/f a/b'), '600 user\n755 user\n')
  const read = await get('/home/user/a/b/f')
  assert.deepEqual([read.bytes.toString(), read.headers['x-file-size'], read.headers['x-file-revision']], ['hello!', '6', sha256('hello!')])
  await put('/home/user/empty', '')
  const empty = await get('/home/user/empty')
  assert.deepEqual(
    [empty.status, empty.bytes.length, empty.headers['x-file-size'], empty.headers['x-file-revision']],
    [200, 0, '0', sha256('')],
  )
  const pseudo = await get('/proc/meminfo')
  assert.ok(pseudo.bytes.length > 0 && pseudo.headers['x-file-revision'] === undefined)
})

test('parts are read by offset and length or by one Range; others are 416 with the size', async () => {
  await put('/home/user/ten', 'abcdefghij')
  for (const [query, headers, status, text] of [
    ['&offset=2&length=3', {}, 200, 'cde'],
    ['&offset=10', {}, 200, ''],
    ['', { range: 'bytes=8-99' }, 206, 'ij'],
  ] as const) {
    const part = await get('/home/user/ten', query, headers)
    assert.deepEqual([part.status, part.bytes.toString()], [status, text])
    assert.equal(part.headers['x-file-revision'], sha256('abcdefghij'), 'of the whole file')
  }
  for (const [query, headers] of [
    ['&offset=11', {}],
    ['', { range: 'bytes=10-11' }],
    ['', { range: 'bytes=-3' }],
    ['', { range: 'bytes=0-1,2-3' }],
  ] as const) {
    const part = await get('/home/user/ten', query, headers)
    assert.deepEqual([...refusalOf(part).slice(0, 2), detailsOf(part)['size']], [416, 'range_not_satisfiable', 10])
  }
})

test('X-File-Revision is sent up to 16 MiB, a revision of stat up to 256 MiB', async () => {
  await sh('head -c 16777216 /dev/zero > 16m; head -c 16777217 /dev/zero > 16m1; truncate -s 256M 256m; truncate -s 268435457 256m1')
  assert.equal((await get('/home/user/16m', '&length=1')).headers['x-file-revision'], sha256(Buffer.alloc(16 << 20)))
  assert.equal((await get('/home/user/16m1', '&length=1')).headers['x-file-revision'], undefined)
  assert.match((await stat('/home/user/256m', '&revision=true')).body.revision ?? '', /^a6d72ac7/)
  assert.equal((await stat('/home/user/256m1', '&revision=true')).body.revision, undefined)
  assert.equal((await stat('/home/user/ten')).body.revision, undefined)
})

test('stat describes links, read and write follow them, and delete removes the link', async () => {
  await sh('echo -n target > target; ln -s target link; ln -s loop loop; ln -s nowhere broken; mkdir real; ln -s real dirlink')
  assert.deepEqual([(await stat('/home/user/link')).body.type, (await stat('/home/user/link')).body.target], ['symlink', 'target'])
  assert.equal((await get('/home/user/link')).bytes.toString(), 'target')
  await put('/home/user/link', 'written')
  assert.equal(await sh('readlink link; cat target'), 'target\nwritten')
  await put('/home/user/broken', 'made')
  assert.equal(await sh('cat nowhere'), 'made')
  assert.deepEqual(refusalOf(await get('/home/user/loop')), [422, 'validation_failed', 'invalid_path'])
  await put('/home/user/dirlink/f', 'x')
  assert.equal(await sh('ls real'), 'f\n')
  assert.equal((await remove('/home/user/dirlink')).status, 204)
  assert.equal(await sh('ls real'), 'f\n')
})

test('FIFOs, devices and sockets are described, and refused at once', async () => {
  await sh(`mkfifo fifo; python3 -c "import socket; socket.socket(socket.AF_UNIX).bind('sock')"`)
  for (const path of ['/home/user/fifo', '/home/user/sock', '/dev/zero', '/dev/null', '/dev/tty']) {
    assert.equal((await quickly(() => stat(path, '&revision=true'))).body.type, 'other')
    for (const answer of [
      await quickly(() => get(path)),
      await quickly(() => put(path, 'x')),
      await quickly(() => put(path, 'x', '&append=true')),
    ])
      assert.deepEqual(refusalOf(answer), [409, 'conflict', 'not_a_file'], path)
    assert.deepEqual(refusalOf(await quickly(() => list(path))), [409, 'conflict', 'not_a_directory'])
  }
})

test('hostile paths stay inside the guest', async () => {
  const guest = await sh('cat /etc/hostname')
  for (const path of ['/home/user/../../etc/hostname', '//etc//hostname', '/proc/1/root/etc/hostname', '/proc/self/root/etc/hostname']) {
    const answer = await get(path)
    if (answer.status === 200) assert.equal(answer.bytes.toString(), guest, path)
    else assert.ok([404, 409, 422].includes(answer.status), `${path}: ${answer.status}`)
  }
  for (const raw of ['..%2f..%2fetc', '%2e%2e/', '/a%00b', '/..%c0%af', `/${'a'.repeat(4096)}`, '/%ff'])
    assert.equal((await client.tool(workspace, `/files?path=${raw}`)).status, 422, raw.slice(0, 20))
  for (const path of ['/dev/fd/3', `/${'a/'.repeat(300)}x`, '/proc/self/fd/3'])
    assert.ok([404, 409, 422].includes((await get(path)).status), path.slice(0, 20))
  const environ = await get('/proc/self/environ')
  assert.ok(!environ.bytes.toString().includes('BERTH') && environ.status !== 500, "not the agent's own")
})

test('a sparse file of 1 TiB is served in parts without a revision and without filling the memory', async () => {
  await sh('truncate -s 1T sparse')
  const before = await service.memory_bytes('cell')
  assert.equal((await quickly(() => stat('/home/user/sparse', '&revision=true'))).body.revision, undefined)
  const part = await get('/home/user/sparse', `&offset=${2 ** 39}&length=1000`)
  assert.deepEqual([part.status, part.bytes.equals(Buffer.alloc(1000)), part.headers['x-file-size']], [200, true, String(2 ** 40)])
  assert.deepEqual((await get('/home/user/sparse', '', { range: `bytes=${2 ** 40 - 1}-${2 ** 40}` })).bytes.length, 1)
  assert.ok((await service.memory_bytes('cell')) - before < 512 << 20) // the limit is high, because other tests use the gateway too
})

const ENTRIES = depth({ short: 11_000, long: 100_000 })
test(`a directory of ${ENTRIES} entries is listed by name and cut, 1,000 directories in each other are made and removed`, async () => {
  await sh(`mkdir many && cd many && seq -f "f%06g" 0 ${ENTRIES - 1} | xargs touch`)
  const first = (await list('/home/user/many')).body
  assert.deepEqual(
    [first.entries.length, first.entries[0]?.name, first.entries[999]?.name, first.truncated],
    [1000, 'f000000', 'f000999', true],
  )
  const most = (await list('/home/user/many', '&limit=10000')).body
  assert.deepEqual([most.entries.length, most.truncated], [10_000, true])
  assert.deepEqual([(await list('/home/user/many', '&limit=10001')).status], [400])
  const deep = `/home/user/deep${'/d'.repeat(1000)}`
  assert.equal((await post('mkdir', { path: deep, parents: true })).status, 201)
  assert.equal((await put(`${deep}/f`, 'x')).status, 200)
  assert.equal((await get(`${deep}/f`)).bytes.toString(), 'x')
  assert.equal((await remove('/home/user/deep', '&recursive=true')).status, 204)
  await sh('rm -r many')
  assert.equal((await stat('/home/user/deep')).status, 404)
})

test('names of 255 bytes are accepted, of 256 refused; names that are not UTF-8 are escaped and deleted with their directory', async () => {
  const long = 'é'.repeat(127) + 'x'
  assert.equal((await put(`/home/user/${long}`, 'x')).status, 200)
  assert.equal((await get(`/home/user/${long}`)).bytes.toString(), 'x')
  assert.deepEqual(refusalOf(await put(`/home/user/${long}y`, 'x')), [422, 'validation_failed', 'invalid_path'])
  await sh(`mkdir odd && cd odd && touch $'bad\\xff\\n' good`)
  const { entries } = (await list('/home/user/odd')).body
  assert.deepEqual(
    entries.map(({ name, path }) => [name, path]),
    [
      ['bad\\xff\\n', '/home/user/odd/bad\\xff\\n'],
      ['good', '/home/user/odd/good'],
    ],
  )
  assert.equal((await get('/home/user/odd/bad\\xff\\n')).status, 404)
  assert.equal((await remove('/home/user/odd', '&recursive=true')).status, 204)
})

test('refusals of mkdir, move and delete have their reasons', async () => {
  const path = '/home/user/m'
  assert.deepEqual([(await post('mkdir', { path, mode: '0700' })).body.mode], ['0700'])
  assert.deepEqual(refusalOf(await post('mkdir', { path })), [409, 'conflict', 'already_exists'])
  assert.deepEqual((await post('mkdir', { path, parents: true })).status, 201)
  assert.deepEqual(refusalOf(await post('mkdir', { path: '/home/user/no/x' })), [404, 'not_found', 'path_not_found'])
  await put(`${path}/f`, 'f')
  await put(`${path}/g`, 'g')
  assert.deepEqual(refusalOf(await post('mkdir', { path: `${path}/f/x` })), [409, 'conflict', 'not_a_directory'])
  assert.deepEqual(refusalOf(await put(path, 'x')), [409, 'conflict', 'not_a_file'])
  assert.deepEqual(refusalOf(await remove(path)), [409, 'conflict', 'not_empty'])
  const move = (from: string, to: string, overwrite = false) => post('move', { from: `${path}/${from}`, to: `${path}/${to}`, overwrite })
  assert.deepEqual(refusalOf(await move('f', 'g')), [409, 'conflict', 'already_exists'])
  assert.deepEqual(refusalOf(await move('none', 'x')), [404, 'not_found', 'path_not_found'])
  assert.equal((await move('f', 'g', true)).body.size, 1)
  assert.equal((await get(`${path}/g`)).bytes.toString(), 'f')
  await sh('mkdir m/d m/e; touch m/e/x')
  assert.deepEqual(refusalOf(await move('d', 'e', true)), [409, 'conflict', 'not_empty'])
  assert.deepEqual(refusalOf(await move('g', 'd', true)), [409, 'conflict', 'not_a_file'])
  assert.deepEqual(refusalOf(await move('d', 'g', true)), [409, 'conflict', 'not_a_directory'])
  assert.equal((await move('e', 'd', true)).body.type, 'directory')
  for (const root of ['/', '/home/..'])
    assert.deepEqual(refusalOf(await remove(root, '&recursive=true')), [422, 'validation_failed', 'invalid_path'])
})

test('a connection reset in the middle of a 7 MiB write leaves the old bytes and no temporary file', async () => {
  await put('/home/user/cut/f', 'old', '&create_parents=true')
  const { hostname, port } = new URL(workspace.endpoint)
  const socket = connect(Number(port), hostname)
  socket.on('error', () => undefined)
  socket.write(
    `PUT /v1/workspaces/${workspace.id}${at('/home/user/cut/f')} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${workspace.token}\r\ncontent-length: ${7 << 20}\r\n\r\n`,
  )
  await new Promise((resolve) => socket.write(Buffer.alloc(3 << 20, 'x'), resolve))
  await sh('for i in $(seq 600); do [ "$(ls -A cut | wc -l)" -gt 1 ] && exit 0; sleep 0.05; done; exit 1') // the write has begun
  socket.resetAndDestroy()
  await sh('for i in $(seq 600); do [ "$(ls -A cut | wc -l)" -eq 1 ] && exit 0; sleep 0.05; done; ls -A cut; exit 1')
  assert.equal((await get('/home/user/cut/f')).bytes.toString(), 'old')
})
