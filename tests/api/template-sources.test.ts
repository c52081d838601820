import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { LIMITS } from '../../contract/limits.ts'
import { sweepUploads } from '../../service/api/templates/uploads/sweep.ts'
import { until } from '../support/processes.ts'
import { type Answer, seeder, type World, world } from './support.ts'

const INDEX = ['git', 'git-lfs', 'libgit2', 'zsh']
  .map((name) => `Package: ${name}\nVersion: 1.0\nDescription: ${name}!\nInstalled-Size: 4\n`)
  .join('\n')

let w: World
let mirror: { url: string; asked: string[]; answer: 'index' | 'nothing' | 'broken'; close(): void }
const uploads_dir = mkdtempSync(join(tmpdir(), 'berth-uploads-'))
before(async () => {
  mirror = await localMirror()
  w = await world({ uploads_dir, package_mirror: `${mirror.url}/debian` })
})
after(async () => {
  await w[Symbol.asyncDispose]()
  mirror.close()
  rmSync(uploads_dir, { recursive: true, force: true })
})

async function localMirror(): Promise<typeof mirror> {
  const made: typeof mirror = { url: '', asked: [], answer: 'index', close: () => server.close() }
  const server = createServer((request, response) => {
    made.asked.push(request.url ?? '')
    if (made.answer === 'nothing') return void response.destroy()
    if (!request.url?.includes('binary-amd64')) return void response.writeHead(404).end()
    response.end(made.answer === 'index' ? gzipSync(INDEX) : gzipSync(INDEX).subarray(0, 40))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  made.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return made
}

const said = ({ status, body }: Answer) => (status < 400 ? status : [status, body.error.code, body.error.details?.reason])
const digest = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')
const begin = (bytes: Buffer, more: object = {}) =>
  w.post('/v1/template-uploads', { size_bytes: bytes.length, sha256: digest(bytes), ...more })

const MIB = 2 ** 20
const inMinutes = (minutes: number) => new Date(w.clock.now().getTime() + minutes * 60_000)
const partNames = async (id: string) => {
  const [kept] = await w.database.superuser.selectFrom('template_uploads').select('parts').where('id', '=', id).execute()
  return (kept?.parts as { name: string }[]).map(({ name }) => name)
}

function slowPart(id: string): { end(): Promise<Answer> } {
  const { promise, resolve } = Promise.withResolvers<void>()
  const body = async function* () {
    yield Buffer.alloc(MIB - 1)
    await promise
    yield Buffer.alloc(1)
  }
  const headers = { authorization: `Bearer ${w.a.key}`, 'content-type': 'application/octet-stream' }
  const init = { method: 'PUT', headers, body: ReadableStream.from(body()), duplex: 'half' } as RequestInit
  const answered = fetch(`${w.base}/v1/template-uploads/${id}?offset=0`, init)
  return {
    async end() {
      resolve()
      const response = await answered
      return { status: response.status, body: await response.json(), headers: response.headers }
    },
  }
}

async function part(id: string, offset: number, bytes: Buffer, as = w.a.key, base = w.base): Promise<Answer> {
  const headers = { authorization: `Bearer ${as}`, 'content-type': 'application/octet-stream' }
  const response = await fetch(`${base}/v1/template-uploads/${id}?offset=${offset}`, {
    method: 'PUT',
    headers,
    body: new Uint8Array(bytes),
  })
  return { status: response.status, body: await response.json(), headers: response.headers }
}

test('an upload comes in parts, can be continued, and is complete when its digest matches', async () => {
  const bytes = randomBytes(2 * MIB + 1000)
  const begun = await begin(bytes)
  assert.deepEqual([begun.status, begun.body.state, begun.body.received_bytes], [201, 'receiving', 0])
  const { id } = begun.body
  assert.equal((await part(id, 0, bytes.subarray(0, MIB))).body.received_bytes, MIB)
  assert.deepEqual(said(await part(id, 0, bytes.subarray(0, MIB))), [422, 'validation_failed', undefined])
  assert.equal((await w.get(`/v1/template-uploads/${id}`)).body.received_bytes, MIB)
  const [one, two] = await Promise.all([part(id, MIB, bytes.subarray(MIB)), part(id, MIB, bytes.subarray(MIB))])
  assert.deepEqual([one.status, two.status].sort(), [200, 422])
  assert.equal((await w.get(`/v1/template-uploads/${id}`)).body.state, 'complete')
  const names = await partNames(id)
  assert.deepEqual(Buffer.concat(names.map((name) => readFileSync(join(uploads_dir, id, name)))), bytes)
  assert.deepEqual(readdirSync(join(uploads_dir, id)).sort(), [...names].sort())
  assert.equal((await w.call('DELETE', `/v1/template-uploads/${id}`)).status, 204)
  assert.deepEqual([(await w.get(`/v1/template-uploads/${id}`)).status, readdirSync(uploads_dir).includes(id)], [404, false])
})

test('every part but the last has at least 1 MiB and a thousandth of its upload', async () => {
  const { id } = (await begin(randomBytes(3000))).body
  assert.deepEqual(said(await part(id, 0, randomBytes(1000))), [422, 'validation_failed', undefined])
  const [size_bytes, sha256] = [LIMITS.template_upload.bytes_max, '0'.repeat(64)]
  const large = (await w.post('/v1/template-uploads', { size_bytes, sha256 })).body
  const refused = await part(large.id, 0, randomBytes(2 * MIB))
  assert.deepEqual(
    [said(refused), /at least 5368710 bytes/.test(refused.body.error.message)],
    [[422, 'validation_failed', undefined], true],
  )
  assert.deepEqual([readdirSync(join(uploads_dir, id)), readdirSync(join(uploads_dir, large.id))], [[], []])
  await w.call('DELETE', `/v1/template-uploads/${large.id}`)
})

test('an upload with all bytes and no digest is finished by an empty part, or by the sweep', async () => {
  const bytes = randomBytes(3000)
  const ends = {
    part: (id: string) => part(id, 3000, Buffer.alloc(0)),
    sweep: () => sweepUploads(w.database.api, uploads_dir, inMinutes(20)),
  }
  for (const end of [ends.part, ends.sweep]) {
    const { id } = (await begin(bytes)).body
    assert.equal((await part(id, 0, bytes)).body.state, 'complete')
    // A process that dies between its two transactions leaves this state.
    await w.database.superuser.updateTable('template_uploads').set({ complete: false }).where('id', '=', id).execute()
    await end(id)
    assert.equal((await w.get(`/v1/template-uploads/${id}`)).body.state, 'complete')
  }
})

test('an upload receives two parts at once; a part for an upload that is being deleted leaves nothing', async () => {
  const { id } = (await begin(randomBytes(2 * MIB))).body
  const slow = [slowPart(id), slowPart(id)]
  await until(
    'both parts are received',
    30_000,
    async () => existsSync(join(uploads_dir, id)) && readdirSync(join(uploads_dir, id)).length === 2,
  )
  assert.deepEqual(said(await part(id, 0, randomBytes(MIB))), [429, 'rate_limited', undefined])
  assert.equal((await w.call('DELETE', `/v1/template-uploads/${id}`)).status, 204)
  for (const each of slow) assert.equal((await each.end()).status, 404)
  assert.equal(existsSync(join(uploads_dir, id)), false)
})

test("the bytes of an organization's uploads are bounded, and count when an upload is created", async () => {
  await using other = await world({ uploads_dir })
  const { bytes_max, organization_bytes_max } = LIMITS.template_upload
  const upload = { size_bytes: bytes_max, sha256: '0'.repeat(64) }
  const made = []
  for (let bytes = 0; bytes < organization_bytes_max; bytes += bytes_max)
    made.push((await other.post('/v1/template-uploads', upload)).body.id)
  const refused = await other.post('/v1/template-uploads', { ...upload, size_bytes: 1 })
  assert.deepEqual([said(refused), refused.body.error.details.limit], [[403, 'quota_exceeded', undefined], 'template_upload_bytes'])
  assert.equal((await other.post('/v1/template-uploads', upload, { as: other.b.key })).status, 201)
  await other.call('DELETE', `/v1/template-uploads/${made[0]}`)
  assert.equal((await other.post('/v1/template-uploads', upload)).status, 201)
})

test('bytes with another digest are refused, and the upload is reset', async () => {
  const bytes = randomBytes(100)
  const { id } = (await begin(bytes)).body
  assert.deepEqual(said(await part(id, 0, randomBytes(100))), [422, 'validation_failed', 'upload_digest_mismatch'])
  assert.deepEqual([(await w.get(`/v1/template-uploads/${id}`)).body.received_bytes, readdirSync(join(uploads_dir, id))], [0, []])
  assert.equal((await part(id, 0, bytes)).body.state, 'complete')
  assert.deepEqual(said(await part(id, 100, bytes)), [422, 'validation_failed', undefined])
})

test('too many bytes, none at all, and a too large upload are refused', async () => {
  const bytes = randomBytes(10)
  const { id } = (await begin(bytes)).body
  assert.deepEqual(said(await part(id, 0, randomBytes(11))), [413, 'payload_too_large', undefined])
  assert.deepEqual(said(await part(id, 0, Buffer.alloc(0))), [400, 'bad_request', undefined])
  assert.deepEqual(readdirSync(join(uploads_dir, id)), [])
  const size_bytes = LIMITS.template_upload.bytes_max + 1
  assert.deepEqual(said(await begin(bytes, { size_bytes })), [422, 'validation_failed', 'upload_too_large'])
  assert.equal((await begin(bytes, { sha256: 'no' })).status, 422)
})

test('an upload belongs to its project, and callers who may not edit templates create none', async () => {
  const { id } = (await begin(randomBytes(10))).body
  assert.deepEqual(said(await part(id, 0, randomBytes(10), w.b.key)), [404, 'not_found', undefined])
  const member = await seeder(w.database, w.clock, w.ids).person(w.a.organization_id, 'member')
  const refused = await w.call('GET', `/v1/template-uploads/${id}`, { as: member.token })
  assert.deepEqual(said(refused), [403, 'forbidden', 'template_dev_mode_role'])
})

test("an organization's uploads are bounded; unused ones expire, and so do bytes without a row", async () => {
  const { per_organization_max, unfinished_hours, unused_hours } = LIMITS.template_upload
  const stranger = join(uploads_dir, w.ids.next()) // as after a restore of an older database
  mkdirSync(stranger)
  for (let made = 0; made < per_organization_max; made++) await begin(randomBytes(10), {})
  assert.deepEqual(said(await begin(randomBytes(10))), [403, 'quota_exceeded', undefined])
  const later = new Date(w.clock.now().getTime() + (unfinished_hours + 1) * 3600_000)
  assert.ok((await sweepUploads(w.database.api, uploads_dir, later)) >= per_organization_max - 5)
  assert.equal((await begin(randomBytes(10))).status, 201)
  assert.ok(existsSync(stranger))
  await sweepUploads(w.database.api, uploads_dir, new Date(w.clock.now().getTime() + (unused_hours + 1) * 3600_000))
  assert.ok(!existsSync(stranger))
})

test('an installation without uploads refuses them with its reason', async () => {
  await using none = await world({ uploads_dir: '' })
  const upload = { size_bytes: 1, sha256: '0'.repeat(64) }
  assert.deepEqual(said(await none.post('/v1/template-uploads', upload)), [503, 'dependency_unavailable', 'uploads_not_configured'])
  // This upload is from before the installation dropped uploads.
  const { organization_id, project_id } = none.a
  const [id, now] = [none.ids.next(), none.clock.now()]
  const earlier = { id, organization_id, project_id, ...upload, created_at: now, used_at: now }
  await none.database.superuser.insertInto('template_uploads').values(earlier).execute()
  const answered = await part(id, 0, Buffer.from('a'), none.a.key, none.base)
  assert.deepEqual(said(answered), [503, 'dependency_unavailable', 'uploads_not_configured'])
  const lookup = await none.get('/v1/template-packages?query=git')
  assert.deepEqual(said(lookup), [503, 'dependency_unavailable', 'package_search_unavailable'])
})

test("packages are looked up in the mirror's index, which is read at the first query", async () => {
  const first = await w.get('/v1/template-packages?query=git')
  assert.deepEqual([said(first), first.headers.get('retry-after')], [[503, 'dependency_unavailable', 'package_index_loading'], '2'])
  await until('the index is there', 30_000, async () => (await w.get('/v1/template-packages?name=git')).status === 200)
  const { body } = await w.get('/v1/template-packages?query=GIT&limit=2')
  assert.deepEqual(
    body.data.map(({ name }: { name: string }) => name),
    ['git', 'git-lfs'],
  )
  const next = await w.get(`/v1/template-packages?query=GIT&limit=2&cursor=${body.next_cursor}`)
  assert.deepEqual([next.body.data.length > 0, next.body.data.some(({ name }: { name: string }) => name === 'git')], [true, false])
  const other_query = await w.get(`/v1/template-packages?query=z&cursor=${body.next_cursor}`)
  assert.deepEqual([next.body.next_cursor, other_query.status], [null, 422])
  assert.deepEqual((await w.get('/v1/template-packages?name=zsh')).body.data[0], {
    name: 'zsh',
    version: '1.0',
    description: 'zsh!',
    installed_bytes: 4096,
  })
  assert.deepEqual(said(await w.get('/v1/template-packages?name=nope')), [404, 'not_found', 'package_not_found'])
  assert.deepEqual(
    mirror.asked.filter((url) => url.includes('amd64')),
    ['/debian/dists/bookworm/main/binary-amd64/Packages.gz'],
  )
  await until(
    'there is no other index',
    30_000,
    async () =>
      said(await w.get('/v1/template-packages?name=git&architecture=arm64')).toString() === '409,conflict,package_index_unavailable',
  )
})

test('a mirror that breaks off or does not answer is unavailable, and is tried again later', async () => {
  for (const answer of ['nothing', 'broken'] as const) {
    mirror.answer = answer
    await using other = await world({ package_mirror: mirror.url })
    const reason = async () => (await other.get('/v1/template-packages?query=git')).body.error?.details.reason
    await until('the mirror is found to be broken', 30_000, async () => (await reason()) === 'package_search_unavailable')
    mirror.answer = 'index'
    other.clock.ahead_ms += 60_000
    await until('the mirror is asked again', 30_000, async () => (await other.get('/v1/template-packages?name=git')).status === 200)
  }
})

test('an organization looks up 120 packages a minute', async () => {
  await using other = await world({ package_mirror: mirror.url })
  let allowed = 0
  let refused: Answer | undefined
  while (refused === undefined && allowed < 2000) {
    const answers = await Promise.all(Array.from({ length: 50 }, () => other.get('/v1/template-packages?query=git')))
    allowed += answers.filter(({ status }) => status !== 429).length
    refused = answers.find(({ status }) => status === 429)
  }
  assert.deepEqual([said(refused ?? assert.fail('none is refused')), allowed >= 120], [[429, 'rate_limited', undefined], true])
  assert.notEqual((await other.get('/v1/template-packages?query=git', { as: other.b.key })).status, 429)
})

test('languages are listed with their versions, the default first', async () => {
  const { body } = await w.get('/v1/template-languages')
  assert.deepEqual(
    body.data.find(({ name }: { name: string }) => name === 'node'),
    { name: 'node', versions: ['24', '22', '20'], default_version: '24' },
  )
})
