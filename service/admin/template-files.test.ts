import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { freshDatabase } from '../../tests/support/postgres.ts'
import { until } from '../../tests/support/processes.ts'
import type { SetupConfig } from '../config.ts'
import { bootstrap } from './bootstrap.ts'
import { AdminError } from './command.ts'
import { readTemplateFile } from './template-files/import.ts'
import { ownArchitecture } from './template-files/manifest.ts'
import { TarReader, tarHead } from './template-files/tar.ts'
import { ADMIN_PROGRAM, adminEnd, adminEnvironment } from '../../tests/support/admin.ts'

const SETTINGS = {
  env: { LANG: 'C.UTF-8' },
  inputs: { CITY: { default: 'Rome' } },
  defaults: { cpu_millis: 1000, memory_mib: 512, disk_gib: 5 },
  ceiling: { cpu_millis: 2000, memory_mib: 1024, disk_gib: 10 },
}
const EGRESS = { mode: 'allowlist', rules: [{ host: 'example.com', ports: [443], protocols: ['tcp'] }], cidrs: [] }

interface Installation extends AsyncDisposable {
  database_url: string
  layers_dir: string
  folder: string
  admin(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }>
}

async function installation(): Promise<Installation> {
  const database = await freshDatabase()
  const folder = mkdtempSync('/tmp/berth-template-file-')
  const layers_dir = path.join(folder, 'layers')
  mkdirSync(layers_dir)
  const database_url = database.url
  const config: SetupConfig = {
    database_url,
    embedded: false,
    base_url: 'http://127.0.0.1:1',
    first_key_file: path.join(folder, 'key'),
    announcement_file: path.join(folder, 'text'),
    templates: [{ name: 'base', digest: 'a'.repeat(64), settings: SETTINGS }],
  }
  await bootstrap(config)
  const admin: Installation['admin'] = (...args) => adminEnd({ database_url, layers_dir }, ...args)
  return {
    database_url,
    layers_dir,
    folder,
    admin,
    async [Symbol.asyncDispose]() {
      await database[Symbol.asyncDispose]()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

let one: Installation
let file: string
let layers: string[]
before(async () => {
  one = await installation()
  const contents = [Buffer.alloc(3 << 20, 'base'), Buffer.from('what was changed'), Buffer.alloc(512, 'x')]
  layers = contents.map((bytes) => {
    const digest = createHash('sha256').update(bytes).digest('hex')
    writeFileSync(path.join(one.layers_dir, `${digest}.erofs`), bytes, { mode: 0o444 })
    return digest
  })
  const [settings, egress] = [path.join(one.folder, 'settings.json'), path.join(one.folder, 'egress.json')]
  writeFileSync(settings, JSON.stringify(SETTINGS))
  writeFileSync(egress, JSON.stringify(EGRESS))
  const published = await one.admin(
    'template',
    'publish',
    '--slug',
    'tools',
    '--settings',
    settings,
    '--layers',
    layers.join(','),
    '--egress',
    egress,
  )
  assert.equal(published.stdout, 'tools version 1\n', published.stderr)
  file = path.join(one.folder, 'tools.berth')
  const exported = await one.admin('template', 'export', '--slug', 'tools', '--output', file)
  assert.deepEqual([exported.code, exported.stdout], [0, `tools version 1 is in ${file}\n`], exported.stderr)
})
after(() => one[Symbol.asyncDispose]())

const versionsOf = async ({ admin }: Installation) =>
  (
    JSON.parse((await admin('template', 'list', '--json')).stdout) as {
      slug: string
      layers: string[]
      settings: object
      egress: object | null
    }[]
  )
    .filter(({ slug }) => slug !== 'base')
    .map(({ slug, layers: of, settings, egress }) => ({ slug, layers: of, settings, egress }))
const imagesOf = ({ layers_dir }: Installation) =>
  readdirSync(layers_dir)
    .filter((name) => name.endsWith('.erofs'))
    .sort()

test('an import copies layers, settings and ceiling of a version, and a repeat changes nothing', async () => {
  await using other = await installation()
  for (const turn of ['first', 'again']) {
    const { code, stdout, stderr } = await other.admin('template', 'import', '--input', file)
    assert.deepEqual([code, stdout], [0, 'tools version 1\n'], `${turn}: ${stderr}`)
  }
  const version = { slug: 'tools', layers, settings: SETTINGS, egress: EGRESS }
  assert.deepEqual(await versionsOf(other), [version])
  assert.deepEqual(imagesOf(other), layers.map((digest) => `${digest}.erofs`).sort())
  const [, changed = ''] = layers
  const image = path.join(other.layers_dir, `${changed}.erofs`)
  assert.deepEqual([readFileSync(image, 'utf8'), statSync(image).mode & 0o777], ['what was changed', 0o444])
  const named = await other.admin('template', 'import', '--input', file, '--slug', 'renamed')
  assert.equal(named.stdout, 'renamed version 1\n')
  assert.equal((await versionsOf(other)).length, 2)
})

test('any tar program lists the file, entries are named by digest, and a second export is identical', async () => {
  const again = path.join(one.folder, 'again.berth')
  await one.admin('template', 'export', '--slug', 'tools', '--version', '1', '--output', again)
  assert.ok(readFileSync(file).equals(readFileSync(again)))
  const { stdout: listed } = await promisify(execFile)('tar', ['-tf', file])
  const [manifest = '', ...images] = listed.trim().split('\n')
  assert.match(manifest, /^manifest-[0-9a-f]{64}\.json$/)
  assert.deepEqual(
    images,
    layers.map((digest) => `layers/${digest}.erofs`),
  )
})

test('an import repairs a damaged image in the target', async () => {
  await using other = await installation()
  const [, changed = ''] = layers
  const image = path.join(other.layers_dir, `${changed}.erofs`)
  writeFileSync(image, 'something else')
  assert.equal((await other.admin('template', 'import', '--input', file)).code, 0)
  assert.equal(readFileSync(image, 'utf8'), 'what was changed')
})

test('every byte counts: a changed, truncated, longer or foreign file is refused and imports nothing', async () => {
  await using other = await installation()
  const whole = readFileSync(file)
  const flipped = (at: number) => {
    const bytes = Buffer.from(whole)
    bytes[at] = (bytes[at] ?? 0) ^ 1
    return bytes
  }
  const manifest_bytes = 512 + Math.ceil(Number.parseInt(whole.toString('latin1', 124, 135), 8) / 512) * 512
  const foreign = Buffer.from(
    whole
      .subarray(512, 512 + Number.parseInt(whole.toString('latin1', 124, 135), 8))
      .toString()
      .replace(ownArchitecture(), 'vax'),
  )
  const newer = Buffer.from(
    whole
      .subarray(512, 512 + 600)
      .toString()
      .split('\n')[0] ?? '',
  )
  const madeOf = (manifest: Buffer) => {
    const name = `manifest-${createHash('sha256').update(manifest).digest('hex')}.json`
    return Buffer.concat([
      tarHead({ name, size: manifest.length }),
      manifest,
      Buffer.alloc((512 - (manifest.length % 512)) % 512),
      whole.subarray(manifest_bytes),
    ])
  }
  const bad: Record<string, [Buffer, RegExp]> = {
    empty: [Buffer.alloc(0), /ends too early/],
    'not a tar': [Buffer.from('x'.repeat(2000)), /damaged/],
    'only zeros': [Buffer.alloc(4096), /does not begin with a manifest/],
    'a bit of the first head': [flipped(10), /damaged/],
    'a bit of the manifest': [flipped(600), /digest of its name/],
    'a bit of a layer': [flipped(manifest_bytes + 2000), /is damaged/],
    'cut in a layer': [whole.subarray(0, manifest_bytes + 5000), /ends too early/],
    'cut before its end': [whole.subarray(0, whole.length - 1024), /ends too early/],
    'one more entry': [
      Buffer.concat([whole.subarray(0, whole.length - 1024), tarHead({ name: 'more', size: 0 }), Buffer.alloc(1024)]),
      /holds more/,
    ],
    'another architecture': [madeOf(foreign), /architecture vax/],
    'a manifest that is none': [madeOf(Buffer.from('{"format": "berth-template", "format_version": 2}')), /version 2/],
    'no JSON': [madeOf(newer), /no template/],
    'a layer that is missing': [Buffer.concat([whole.subarray(0, manifest_bytes), whole.subarray(-1024)]), /not where it should be/],
  }
  for (const [what, [bytes, message]] of Object.entries(bad)) {
    const path_of = path.join(other.folder, 'bad.berth')
    writeFileSync(path_of, bytes)
    await assert.rejects(
      readTemplateFile(path_of, other.layers_dir),
      (error) => error instanceof AdminError && message.test(error.message),
      what,
    )
  }
  const { code, stderr } = await other.admin('template', 'import', '--input', path.join(other.folder, 'bad.berth'))
  assert.deepEqual([code, /not where it should be/.test(stderr), await versionsOf(other)], [1, true, []], stderr)
  const unfinished = path.join(other.layers_dir, 'making')
  assert.deepEqual(existsSync(unfinished) ? readdirSync(unfinished) : [], [])
})

test('a missing or damaged layer fails the export and leaves no file', async () => {
  await using other = await installation()
  await other.admin('template', 'import', '--input', file)
  const output = path.join(other.folder, 'out.berth')
  const at = path.join(other.layers_dir, `${layers[2] ?? ''}.erofs`)
  const exporting = (...more: string[]) => other.admin('template', 'export', '--slug', 'tools', '--output', output, ...more)
  chmodSync(at, 0o600)
  truncateSync(at, 100)
  assert.match((await exporting()).stderr, /is damaged/)
  rmSync(at)
  assert.match((await exporting()).stderr, /is not on this computer/)
  assert.match((await exporting('--version', '7')).stderr, /no version 7/)
  assert.equal((await exporting('--version', 'x')).code, 2)
  assert.deepEqual(
    readdirSync(other.folder).filter((name) => name.startsWith('out')),
    [],
  )
})

test('a killed import leaves no version and no misnamed image, and a repeat completes it', async () => {
  await using other = await installation()
  const env = adminEnvironment({ database_url: other.database_url, layers_dir: other.layers_dir })
  for (const images of [0, 1, 2]) {
    const child = spawn(process.execPath, [ADMIN_PROGRAM, 'template', 'import', '--input', file], {
      env,
      stdio: 'ignore',
    })
    const ended = new Promise((resolve) => child.once('exit', resolve))
    await until('it is under way', 60_000, () => imagesOf(other).length >= images || child.exitCode !== null)
    child.kill('SIGKILL')
    await ended
    for (const name of imagesOf(other)) {
      assert.equal(
        `${createHash('sha256')
          .update(readFileSync(path.join(other.layers_dir, name)))
          .digest('hex')}.erofs`,
        name,
      )
    }
    assert.ok((await versionsOf(other)).length <= 1)
  }
  assert.equal((await other.admin('template', 'import', '--input', file)).stdout, 'tools version 1\n')
  assert.equal((await versionsOf(other)).length, 1)
})

test("a size above 8 GiB is written to and read from an entry's head", async () => {
  const size = 20 * 2 ** 30 + 5
  const head = tarHead({ name: 'large', size })
  const handle = { read: (into: Buffer) => Promise.resolve({ bytesRead: head.copy(into), buffer: into }) }
  assert.deepEqual(await new TarReader(handle as never).next(), { name: 'large', size })
})
