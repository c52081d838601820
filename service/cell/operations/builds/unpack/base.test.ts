import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, lstatSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { entryOf, tarOf } from '../../../../../tests/support/tars.ts'
import { patience } from '../../../../../tests/support/patience.ts'

/** The path of Python itself, so that a wrapper script named `python3` is run only once. */
const PYTHON = execFileSync('python3', ['-c', 'import sys; print(sys.executable)'], { encoding: 'utf8' }).trim()
const PROGRAM = join(import.meta.dirname, 'base.py')
const SHELL = readFileSync('/bin/sh')
const ARCHITECTURE = process.arch === 'arm64' ? 'arm64' : 'amd64'
const PASSWD = 'root:x:0:0:root:/root:/bin/sh\n'

interface Unpacked extends Disposable {
  code: number | null
  said: string
  at(path: string): string
}

/** Runs the program, and checks that nothing outside its folder has changed. */
function unpack(upload: Buffer, { bytes_max = 2 ** 24, entries_max = 1000 } = {}): Unpacked {
  const folder = mkdtempSync(join(tmpdir(), 'berth-unpack-'))
  writeFileSync(join(folder, 'upload'), upload)
  writeFileSync(join(folder, 'victim'), 'untouched')
  const before = [readdirSync('/etc').length, statSync('/etc/passwd').nlink, statSync('/etc/passwd').mtimeMs]
  const asked = ['-B', '-E', '-s', PROGRAM, join(folder, 'upload'), join(folder, 'work'), String(bytes_max), String(entries_max)]
  const { status, stdout, stderr } = spawnSync(PYTHON, asked, { encoding: 'utf8', timeout: patience(60_000), maxBuffer: 2 ** 20 })
  assert.deepEqual([readdirSync('/etc').length, statSync('/etc/passwd').nlink, statSync('/etc/passwd').mtimeMs], before)
  assert.equal(readFileSync(join(folder, 'victim'), 'utf8'), 'untouched')
  const strange = readdirSync(folder).filter((name) => !['upload', 'victim', 'work'].includes(name))
  assert.deepEqual(strange, [], 'something was written beside the folder')
  return {
    code: status,
    said: status === 0 ? stdout : stderr,
    at: (path) => join(folder, 'work/root', path),
    [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }),
  }
}

const directory = (name: string) => entryOf(name, '', { type: '5', mode: '0000755' })
const link = (name: string, target: string) => entryOf(name, '', { type: '2', target })
const hard = (name: string, target: string) => entryOf(name, '', { type: '1', target })
const file = (name: string, content: string | Buffer = 'x') => entryOf(name, content)
const program = (name: string, content: Buffer) => entryOf(name, content, { mode: '0000755' })
const BASE = [directory('bin/'), program('bin/sh', SHELL), file('etc/passwd', PASSWD)]
const good = (...more: Buffer[]) => tarOf(...BASE, ...more)

const pax = (text: string, type = 'x') => entryOf('pax', text, { type })
const paxLine = (key: string, value: string) => {
  const rest = ` ${key}=${value}\n`
  const length = rest.length + String(rest.length + 3).length
  return `${length}${rest}`
}
const elfOf = (machine: number) => {
  const changed = Buffer.from(SHELL)
  changed.writeUInt16LE(machine, 18)
  return changed
}

interface Image {
  layers?: Buffer[]
  architecture?: string
  change?: (files: Map<string, Buffer>) => void
  manifest?: (manifest: Record<string, unknown>) => object
  config?: (config: Record<string, unknown>) => object
  index?: (index: Record<string, unknown>) => object
}

const sha = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')

function image({ layers = [good()], architecture = ARCHITECTURE, change, ...of }: Image = {}): Buffer {
  const files = new Map<string, Buffer>([['oci-layout', Buffer.from('{"imageLayoutVersion":"1.0.0"}')]])
  const blob = (bytes: Buffer, more: object = {}) => {
    files.set(`blobs/sha256/${sha(bytes)}`, bytes)
    return { mediaType: 'application/octet-stream', digest: `sha256:${sha(bytes)}`, size: bytes.length, ...more }
  }
  const json = (value: object) => Buffer.from(JSON.stringify(value))
  const packed = layers.map((bytes, at) => (at % 2 === 0 ? gzipSync(bytes) : bytes))
  const config = { architecture, os: 'linux', rootfs: { type: 'layers', diff_ids: layers.map((bytes) => `sha256:${sha(bytes)}`) } }
  const manifest = { schemaVersion: 2, config: blob(json(of.config?.(config) ?? config)), layers: packed.map((bytes) => blob(bytes)) }
  const index = { schemaVersion: 2, manifests: [blob(json(of.manifest?.(manifest) ?? manifest))] }
  files.set('index.json', json(of.index?.(index) ?? index))
  change?.(files)
  return tarOf(directory('blobs/'), directory('blobs/sha256/'), ...[...files].map(([name, bytes]) => file(name, bytes)))
}

const damaged = (fits: (bytes: Buffer) => boolean) => (files: Map<string, Buffer>) => {
  for (const [name, bytes] of files)
    if (name.startsWith('blobs/') && fits(bytes)) files.set(name, Buffer.concat([bytes.subarray(0, -1), Buffer.from('!')]))
}

const HOSTILE: [name: string, upload: Buffer, why: RegExp, bounds?: { bytes_max?: number; entries_max?: number }][] = [
  ['a name that leads out', good(file('../victim')), /leads out/],
  ['a name that leads out in its middle', good(file('a/../../victim')), /leads out/],
  ['a name that is only ..', good(directory('..')), /leads out/],
  ['a hard link to a file of the host', good(hard('x', '/../../../../victim')), /leads out/],
  ['a hard link to what the archive does not have', good(hard('x', '/etc/shadow')), /link to what is not there/],
  ['a hard link to a directory', good(hard('x', 'bin')), /is a directory/],
  ['a file below a link that leads out to nothing', good(link('out', '../../../../../victim-not-here'), file('out/x')), /below a link to what is not there/],
  ['a file below a file', good(file('f'), file('f/x')), /below what is no directory/],
  ['links in a circle', good(link('a', 'b'), link('b', 'a'), file('a/x')), /links that lead in a circle/],
  ['a link to nothing', good(link('l', '')), /link to no path/],
  ['an entry of an unknown kind', good(entryOf('k', '', { type: 'Z' })), /kind that is not known/],
  ['a name longer than a name may be', good(file("n".repeat(300))), /too long/],
  ['a path longer than a path may be', good(file(`${'d/'.repeat(2100)}x`)), /too long/],
  ['more entries than allowed', good(...Array.from({ length: 1100 }, (_, at) => file(`many/${at}`, ''))), /more than 1000 entries/],
  ['files larger than allowed together', good(file('a', 'x'.repeat(700_000)), file('b', 'x'.repeat(700_000))), /more than 1000000 bytes/, { bytes_max: 1_000_000 }],
  ['a file that says it is larger than allowed', good(entryOf('big', '', { size: '77777777777' })), /holds more than/],
  ['a bomb: zeros, a thousand to one', gzipSync(good(file('zeros', Buffer.alloc(20_000_000)))), /holds more than/],
  ['a bomb between the files', gzipSync(Buffer.concat([good().subarray(0, -1024), pax('x'.repeat(2_000_000)), Buffer.alloc(1024)])), /header of more than 1 MiB/],
  ['a header of another kind that is too large', good(pax('x'.repeat(1_100_000), 'g')), /header of more than 1 MiB/],
  ['a size below nothing', good(pax(paxLine('size', '-5')), file('neg')), /less than no bytes|no whole tar|cannot be unpacked/],
  ['a user that cannot be', good(pax(paxLine('uid', '4294967299')), file('who')), /user that cannot be/],
  ['a sparse file larger than allowed', good(pax(`${paxLine('GNU.sparse.major', '1')}${paxLine('GNU.sparse.minor', '0')}${paxLine('GNU.sparse.name', 's')}${paxLine('GNU.sparse.realsize', '99999999999')}`), file('s', `1\n0\n1\n${'\0'.repeat(507)}x`)), /holds more than|no whole tar|cannot be unpacked/],
  ['a chain of headers', good(...Array.from({ length: 900 }, () => pax(paxLine('comment', 'x'))), file('after')), /more than|cannot be unpacked|no whole tar|ends too early/, { entries_max: 3 }],
  ['an archive that is cut off', good(file('cut', 'x'.repeat(5000))).subarray(0, -4000), /no whole tar|ends too early/],
  ['a compressed archive that is cut off', gzipSync(good()).subarray(0, 9000), /no whole tar|ends too early/],
  ['a compressed archive with a wrong checksum', Buffer.concat([gzipSync(good()).subarray(0, -8), Buffer.alloc(8, 1)]), /no whole tar/],
  ['no archive', Buffer.from('this is a letter, and no archive of anything'.repeat(40)), /no whole tar|no \/bin\/sh/],
  ['nothing', tarOf(), /no \/bin\/sh/],
  ['bytes of bzip2', Buffer.concat([Buffer.from('BZh91AY&SY'), Buffer.alloc(600)]), /bzip2 or xz/],
  ['no shell', tarOf(file('etc/passwd', PASSWD)), /no \/bin\/sh/],
  ['a shell that leads in a circle', tarOf(link('bin/sh', 'sh'), file('etc/passwd', PASSWD)), /no \/bin\/sh/],
  ['a shell that is a pipe', tarOf(entryOf('bin/sh', '', { type: '6' }), file('etc/passwd', PASSWD)), /\/bin\/sh is no program/],
  ['a shell that is a text', tarOf(program('bin/sh', Buffer.from('#!/bin/true\n')), file('etc/passwd', PASSWD)), /no program/],
  ['a shell that nobody may run', tarOf(file('bin/sh', SHELL), file('etc/passwd', PASSWD)), /no program/],
  ['programs of another architecture', tarOf(program('bin/sh', elfOf(8)), file('etc/passwd', PASSWD)), /programs are not for/],
  ['no users', tarOf(program('bin/sh', SHELL)), /no \/etc\/passwd/],
  ['no root among the users', tarOf(program('bin/sh', SHELL), file('etc/passwd', 'other:x:5:5::/:/bin/sh\n')), /no root/],
  ['users that are a pipe', tarOf(program('bin/sh', SHELL), entryOf('etc/passwd', '', { type: '6' })), /is no file/],
  ['a link where machines mount their own', good(link('proc', '/srv')), /\/proc is no directory/],
  ['a link for /dev to the host', good(link('dev', '../../../../dev')), /\/dev is no directory/],
  ['an archive of docker save', tarOf(file('manifest.json', '[]')), /docker save/],
  ['an image of another architecture', image({ architecture: 's390x' }), /for "linux\/s390x"/],
  ['an image without a platform that fits', image({ index: (index) => ({ manifests: [{ ...(index['manifests'] as object[])[0], platform: { os: 'windows', architecture: ARCHITECTURE } }] }) }), /not for linux/],
  ['an image whose layer is damaged', image({ change: damaged((bytes) => bytes.length > 9000) }), /is damaged/],
  ['an image whose manifest is damaged', image({ change: damaged((bytes) => bytes.includes('schemaVersion')) }), /is damaged/],
  ['an image whose layer is something else when it is uncompressed', image({ config: (config) => ({ ...config, rootfs: { diff_ids: [`sha256:${'0'.repeat(64)}`] } }) }), /when it is uncompressed/],
  ['an image without one of its blobs', image({ change: (files) => void files.delete([...files.keys()].find((name) => name.startsWith('blobs/')) ?? '') }), /has no blobs/],
  ['an image whose blob is named by a path', image({ manifest: (manifest) => ({ ...manifest, config: { digest: 'sha256:../../../victim', size: 1 } }) }), /not sha256/],
  ['an image whose index is no JSON', image({ change: (files) => void files.set('index.json', Buffer.from('{')) }), /not JSON/],
  ['an image whose index is a list', image({ change: (files) => void files.set('index.json', Buffer.from('[]')) }), /no object/],
  ['an image without layers', image({ manifest: (manifest) => ({ ...manifest, layers: [] }) }), /has 0 layers/],
  ['an image with more digests than layers', image({ config: (config) => ({ ...config, rootfs: { diff_ids: ['a', 'b'] } }) }), /names 2/],
  ['an image that hides ..', image({ layers: [good(file('a/.wh...'))] }), /hides no name/],
  ['an image whose layer leads out', image({ layers: [good(file('../../victim'))] }), /leads out/],
] // prettier-ignore

for (const [name, upload, why, bounds] of HOSTILE) {
  test(`refused as a base, with nothing written elsewhere: ${name}`, () => {
    using unpacked = unpack(upload, bounds)
    assert.equal(unpacked.code, 3, unpacked.said)
    assert.match(unpacked.said, why)
    assert.equal(unpacked.said.trim().includes('\n'), false, 'the reason is one line')
  })
}

test('a root file system is unpacked as it is (owners, modes, links, times); what every machine needs is added', () => {
  const more = [
    link('lib', 'usr/lib'),
    directory('usr/lib/'),
    file('lib/through-a-link', 'inside'),
    hard('usr/lib/same', 'lib/through-a-link'),
    entryOf('usr/bin/su', 'x', { mode: '0004755' }),
    link('outside', '/../../../../etc/passwd'),
    entryOf('dev/null', '', { type: '3' }),
    entryOf('pipe', '', { type: '6' }),
    file('/absolute', 'x'),
    file('again', 'first'),
    file('again', 'second'),
    link('twice', 'etc/passwd'),
    file('twice', 'not through the link'),
  ]
  using unpacked = unpack(gzipSync(good(...more)))
  assert.equal(unpacked.code, 0, unpacked.said)
  const { at } = unpacked
  const text = (path: string) => readFileSync(at(path), 'utf8')
  assert.equal(text('usr/lib/through-a-link'), 'inside')
  assert.equal(statSync(at('usr/lib/same')).ino, statSync(at('usr/lib/through-a-link')).ino)
  assert.deepEqual([statSync(at('usr/bin/su')).mode & 0o7777, statSync(at('usr/bin/su')).uid], [0o4755, 0o1750])
  assert.equal(readlinkSync(at('outside')), '/../../../../etc/passwd')
  assert.equal(existsSync(at('dev/null')), false)
  assert.match(unpacked.said, /1 device files are left out/)
  assert.ok(lstatSync(at('pipe')).isFIFO())
  assert.deepEqual([text('absolute'), text('again'), text('twice')], ['x', 'second', 'not through the link'])
  assert.equal(text('etc/passwd'), `${PASSWD}user:x:1000:1000::/home/user:/bin/sh\n`)
  assert.deepEqual(readdirSync(at('')).filter((name) => ['dev', 'home', 'proc', 'run', 'sys', 'tmp'].includes(name)).length, 6)
})

test('layers of an image stack: a whiteout removes an entry, and an opaque directory has only its own entries', () => {
  const lower = good(file('gone', 'x'), file('kept', 'lower'), file('d/old', 'x'), file('d/sub/old', 'x'), file('e/f', 'x'), link('l', 'd'))
  const upper = tarOf(
    file('.wh.gone', ''),
    file('d/new', 'upper'),
    file('d/.wh..wh..opq', ''),
    file('kept', 'upper'),
    file('.wh.e', ''),
    file('.wh..wh.plnk', ''),
    directory('l/'),
    file('l/own', 'x'),
  )
  using unpacked = unpack(gzipSync(image({ layers: [lower, upper] })))
  assert.equal(unpacked.code, 0, unpacked.said)
  const names = (path: string) => readdirSync(unpacked.at(path)).sort()
  assert.deepEqual(
    [names('d'), names('l'), existsSync(unpacked.at('gone')), existsSync(unpacked.at('e'))],
    [['new'], ['own'], false, false],
  )
  assert.equal(readFileSync(unpacked.at('kept'), 'utf8'), 'upper')
})

test('an image of several platforms gives that of this computer; an existing user stays as it is', () => {
  const passwd = `${PASSWD}user:x:777:777::/srv:/bin/sh\n`
  const layers = [tarOf(program('bin/sh', SHELL), file('etc/passwd', passwd))]
  const other = { digest: `sha256:${'f'.repeat(64)}`, size: 1, platform: { os: 'linux', architecture: 'riscv64' } }
  const index = (given: Record<string, unknown>) => {
    const [own] = given['manifests'] as object[]
    return { ...given, manifests: [other, { ...own, platform: { os: 'linux', architecture: ARCHITECTURE } }] }
  }
  using unpacked = unpack(image({ layers, index }))
  assert.equal(unpacked.code, 0, unpacked.said)
  assert.equal(readFileSync(unpacked.at('etc/passwd'), 'utf8'), passwd)
})

test("archives of this computer's tar and gzip are accepted", () => {
  const folder = mkdtempSync(join(tmpdir(), 'berth-root-'))
  try {
    const made = execFileSync('tar', [
      '-cz',
      '--format=posix',
      '--transform=s,^bin/dash,bin/sh,',
      '-C',
      '/',
      'etc/passwd',
      'bin/dash',
      'etc/group',
    ])
    using unpacked = unpack(made)
    assert.equal(unpacked.code, 0, unpacked.said)
    assert.equal(statSync(unpacked.at('bin/sh')).mode & 0o111, 0o111)
  } finally {
    rmSync(folder, { recursive: true })
  }
})
