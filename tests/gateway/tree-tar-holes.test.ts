import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { LIMITS } from '../../contract/limits.ts'
import { entryOf, sparseRecords, tarOf } from '../support/tars.ts'
import { type Bench, refusalOf } from './support/gateway.ts'
import { HOME, openTreeBench, q, treeCalls } from './support/tree-calls.ts'

let bench: Bench
const folder = mkdtempSync(path.join(tmpdir(), 'holes-'))
before(async () => {
  bench = await openTreeBench()
})
after(async () => {
  rmSync(folder, { recursive: true, force: true })
  await bench[Symbol.asyncDispose]()
})

function writeWithHoles(at: string, content: Buffer): void {
  writeFileSync(`${at}.whole`, content)
  execFileSync('cp', ['--sparse=always', `${at}.whole`, at])
}

const { stat, makes } = treeCalls(() => bench)
const put = (at: string, body: Buffer) => bench.call('PUT', `/files/tar?${q(at, { create_parents: true })}`, { body: new Uint8Array(body) })
const bytesOf = async (at: string) => Buffer.from(await (await bench.call('GET', `/files?${q(at)}`)).arrayBuffer())
const holed = (size: number, map: string, data: string) =>
  tarOf(
    sparseRecords({ 'GNU.sparse.major': '1', 'GNU.sparse.minor': '0', 'GNU.sparse.name': 'f', 'GNU.sparse.realsize': String(size) }),
    entryOf('GNUSparseFile.0/f', `${map}${'\0'.repeat((512 - (map.length % 512)) % 512)}${data}`),
  )

test('a tree stores files with holes from tar(1) with the content that they read as', async () => {
  const at = (name: string) => path.join(folder, name)
  const ends = execFileSync(
    'sh',
    ['-c', 'printf begin; head -c 9000000 /dev/zero; printf "in the middle"; head -c 70000 /dev/zero; printf end'],
    {
      maxBuffer: 10 << 20,
    },
  )
  writeWithHoles(at('ends'), ends)
  writeFileSync(at('first'), 'data, then a hole')
  truncateSync(at('first'), 3_000_001)
  const many = Buffer.alloc(4 << 20)
  for (let each = 0; each < 64; each++) many.write(String(each), each << 16)
  writeWithHoles(at('many'), many)
  for (const format of ['gnu', 'posix']) {
    const tar = execFileSync('tar', ['-c', '--sparse', `--format=${format}`, '-C', folder, 'ends', 'first', 'many'], { maxBuffer: 1 << 24 })
    assert.ok(tar.length < 1 << 20, `${tar.length} bytes`)
    const { bytes } = await makes<{ bytes: number }>(() => put(`${HOME}/${format}`, tar), 200)
    assert.equal(bytes, ends.length + 3_000_001 + many.length)
    for (const name of ['ends', 'first', 'many'])
      assert.ok((await bytesOf(`${HOME}/${format}/${name}`)).equals(readFileSync(at(name))), `${format} ${name}`)
  }
})

test('an invalid map of holes is refused, and holes count with their full size', async () => {
  await makes(() => put(`${HOME}/good`, holed(10, '1\n3\n4\n', 'data')), 200)
  assert.deepEqual(await bytesOf(`${HOME}/good/f`), Buffer.from('\0\0\0data\0\0\0'))
  const bad: Record<string, Buffer> = {
    'behind the end': holed(10, '1\n7\n4\n', 'data'),
    'not in order': holed(100, '2\n50\n2\n0\n2\n', 'data'),
    'one over another': holed(100, '2\n0\n3\n2\n1\n', 'data'),
    'more data than there is': holed(100, '1\n0\n5\n', 'data'),
    'less data than there is': holed(100, '1\n0\n3\n', 'data'),
    'larger than with holes': holed(3, '1\n0\n4\n', 'data'),
    'no numbers': holed(10, '1\nx\n4\n', 'data'),
    'a line without an end': holed(10, '9'.repeat(600), 'data'),
    'more pieces than are taken': holed(10, '65537\n', ''),
    'less than it says': holed(10, '2\n0\n4\n', 'data'),
    'a size that is none': holed(-1, '0\n', ''),
  }
  for (const [what, tar] of Object.entries(bad)) assert.equal(await refusalOf(await put(`${HOME}/bad`, tar)), '422 validation_failed', what)
  const { upload_bytes_max } = LIMITS.tar
  assert.equal(await refusalOf(await put(`${HOME}/bad`, holed(upload_bytes_max + 1, '0\n', ''))), '413 payload_too_large')
  assert.equal((await stat(`${HOME}/bad`)).status, 404)
})
