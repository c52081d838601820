import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import type { TemplateBuild } from '../../contract/schemas/template-builds.ts'
import { createClient, type Client, type OpenedWorkspace } from '../support/client.ts'
import { type SharedService, sharedService } from '../support/shared-services.ts'
import { entryOf, tarOf } from '../support/tars.ts'
import { builds, type Builds } from '../support/template-builds.ts'

// The bases are uploads: a root file system, and images made of it.
const PROGRAMS = ['cat', 'ls', 'id', 'mkdir', 'chown', 'tar', 'gzip']
let service: SharedService
let client: Client
let of: Builds
let folder: string
let root: Buffer

before(async () => {
  service = await sharedService()
  client = createClient(service.base_url, service.api_key)
  of = builds(client)
  folder = mkdtempSync(path.join(tmpdir(), 'berth-root-'))
  root = tinyRoot()
})
after(async () => {
  rmSync(folder, { recursive: true, force: true })
  await service.stop()
})

function tinyRoot(): Buffer {
  const at = path.join(folder, 'root')
  for (const name of ['bin', 'etc', 'home/user', 'tmp']) mkdirSync(path.join(at, name), { recursive: true })
  execFileSync('cp', ['-L', '/bin/sh', path.join(at, 'bin/sh')])
  const places = PROGRAMS.map((name) => execFileSync('sh', ['-c', `command -v ${name}`], { encoding: 'utf8' }).trim())
  for (const place of places) execFileSync('cp', ['-L', place, path.join(at, 'bin', path.basename(place))])
  const needed = execFileSync('ldd', ['/bin/sh', ...places], { encoding: 'utf8' }).matchAll(/(\/\S+\.so\S*)/g)
  for (const [, library = ''] of needed) execFileSync('cp', ['-L', '--parents', library, at])
  writeFileSync(path.join(at, 'etc/passwd'), 'root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n')
  writeFileSync(path.join(at, 'etc/group'), 'root:x:0:\nuser:x:1000:\n')
  writeFileSync(path.join(at, 'etc/issue'), 'of the lower layer\n')
  return execFileSync('tar', ['-c', '--owner=0', '--group=0', '-C', at, '.'], { maxBuffer: 2 ** 28 })
}

const shell = async (at: OpenedWorkspace, script: string) => (await client.run(at, ['/bin/sh', '-c', script])).stdout.trim()
const sha = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')

function image(layers: Buffer[], architecture = process.arch === 'arm64' ? 'arm64' : 'amd64'): Buffer {
  const blobs = new Map<string, Buffer>()
  const blob = (bytes: Buffer) => {
    blobs.set(sha(bytes), bytes)
    return { mediaType: 'application/octet-stream', digest: `sha256:${sha(bytes)}`, size: bytes.length }
  }
  const json = (value: object) => blob(Buffer.from(JSON.stringify(value)))
  const rootfs = { type: 'layers', diff_ids: layers.map((bytes) => `sha256:${sha(bytes)}`) }
  const manifest = json({
    schemaVersion: 2,
    config: json({ architecture, os: 'linux', rootfs }),
    layers: layers.map((bytes) => blob(gzipSync(bytes))),
  })
  const index = JSON.stringify({ schemaVersion: 2, manifests: [manifest] })
  const files = [...blobs].map(([name, bytes]) => entryOf(`blobs/sha256/${name}`, bytes))
  return tarOf(entryOf('oci-layout', '{"imageLayoutVersion":"1.0.0"}'), entryOf('index.json', index), ...files)
}

const finished = async (slug: string, json: object): Promise<TemplateBuild> => of.finished(await of.begin(slug, json))

test('an uploaded root file system is a base: a step runs on it, and its workspace opens', async () => {
  const upload_id = await of.uploaded(gzipSync(root))
  const dockerfile = `FROM upload:${upload_id}\nENV FROM_UPLOAD=yes\nRUN echo built > /built\n`
  const build = await finished('from-root', { dockerfile, auto_publish: true })
  assert.deepEqual([build.state, build.error, build.published], ['succeeded', null, true])
  assert.match(await of.log(build.id), /==> the base: unpack the upload .*\nunpacked \d+ entries with \d+ bytes\n==> step 1 of 1/)
  const opened = await client.open('from-root', { template: 'from-root' })
  assert.equal(await shell(opened, 'cat /built /etc/issue; id -un; echo $FROM_UPLOAD'), 'built\nof the lower layer\nuser\nyes')
  const again = await finished('from-root', { dockerfile })
  assert.match(await of.log(again.id), /unpack the upload .* \(as before\)\n==> step 1 of 1.*\(as before\)/)
})

test('an uploaded image is a base whose upper layer hides and replaces files, and a recipe copies files onto it', async () => {
  const upper = tarOf(entryOf('etc/.wh.issue', ''), entryOf('etc/of-the-image', 'upper\n'))
  const base = `upload:${await of.uploaded(image([root, upper]))}`
  const files = [{ path: '/srv/written', content: 'by the recipe\n' }]
  const build = await finished('from-image', { recipe: { base, files, egress: { mode: 'deny_all' } }, auto_publish: true })
  assert.deepEqual([build.state, build.error], ['succeeded', null])
  const opened = await client.open('from-image', { template: 'from-image' })
  assert.equal(
    await shell(opened, 'cat /etc/of-the-image /srv/written; ls /etc/issue 2>/dev/null || echo hidden'),
    'upper\nby the recipe\nhidden',
  )
})

test('an upload that is no base fails with the reason and leaves neither version nor machine', async () => {
  const cases: [string, Buffer, RegExp][] = [
    ['no-shell', tarOf(entryOf('etc/passwd', 'root:x:0:0::/:/bin/sh\n')), /no base: it has no \/bin\/sh/],
    ['leads-out', Buffer.concat([entryOf('../../etc/cron.d/x', 'x'), root]), /no base: .* leads out of it/],
    ['other-machine', image([root], 's390x'), /is for "linux\/s390x"/],
    ['a-bomb', gzipSync(tarOf(entryOf('zeros', '', { size: '77777777777' }))), /holds more than/],
  ]
  for (const [slug, bytes, why] of cases) {
    const recipe = { base: `upload:${await of.uploaded(bytes)}`, defaults: { disk_gib: 1 } }
    const build = await finished(slug, { recipe })
    assert.deepEqual([build.state, build.version, build.error?.code], ['failed', null, 'dependency_failed'], slug)
    assert.match(build.error?.message ?? '', why)
    assert.deepEqual(await service.query('select 1 from machines where id = $1', [build.id]), [])
  }
})
