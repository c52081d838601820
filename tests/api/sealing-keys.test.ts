import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { readdirSync, statSync, unlinkSync, writeFileSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { after, before, test } from 'node:test'
import type { Context } from '../../service/admin/command.ts'
import { byOperator } from '../../service/admin/operator.ts'
import { SEALING_KEY_COMMANDS } from '../../service/admin/sealing-keys.ts'
import { mutate } from '../../service/core/changes/mutate.ts'
import { createAuthorities } from '../../service/cell/policies/secrets/authorities.ts'
import { openSecretKeys } from '../../service/cell/policies/secrets/keys.ts'
import { createSecrets, type Secrets } from '../../service/cell/policies/secrets/resolve.ts'
import { createIds } from '../../service/lib/ids.ts'
import { openerOf, openSealingKey } from '../../service/core/keys/ring/sealed-values.ts'
import { depth } from '../support/depth.ts'
import { keyService } from '../support/key-service.ts'
import { collectingLog } from '../support/logged.ts'
import { until } from '../support/processes.ts'
import { seedSecret } from '../support/secrets.ts'
import { world, type World } from './support.ts'
import { ADMIN_PROGRAM } from '../support/admin.ts'

const VALUES = 400
const KILLS = depth({ short: 3, long: 20 })

let w: World
let directory: string
let workspace_id: string
let secrets: Secrets
let command = ''
const logged: string[] = []
before(async () => {
  w = await world()
  directory = join(w.keys_dir, 'cell')
  workspace_id = await w.running('uses-secrets')
  const log = collectingLog(logged)
  const opener = await openSecretKeys({ directory, command: '', db: w.database.cell, clock: w.clock, log })
  const deps = { db: w.database.cell, opener, clock: w.clock }
  secrets = createSecrets({ ...deps, authorities: createAuthorities({ ...deps, ids: createIds(w.clock) }), log }, 1_000_000)
})
after(() => w[Symbol.asyncDispose]())

const env = () => ({ ...process.env, BERTH_ADMIN: JSON.stringify({ database_url: w.database.url, secret_keys_dir: directory }) })
const admin = async (...args: string[]): Promise<string> => {
  const lines: string[] = []
  const { superuser: db } = w.database
  const at = { clock: w.clock, ids: w.ids }
  const change: Context['change'] = (action, work, subject) => mutate(db, byOperator(at), action, work, subject)
  const output = { line: (text: string) => void lines.push(text), note: () => undefined }
  const folder = { secret_keys_dir: directory, secret_keys_command: command }
  await SEALING_KEY_COMMANDS[args.slice(0, 2).join(' ')]?.run(args.slice(2), { db, output, change, ...folder, ...at })
  return lines.join('\n')
}
const refused = (...args: string[]) =>
  admin(...args).then(
    () => '',
    (error: unknown) => (error as Error).message,
  )
const keys = async () =>
  JSON.parse(await admin('keys', 'kek', '--json')) as { key_id: string; state: string; values: number; file: string | null }[]
const create = (name: string, value: string) => w.post(`/v1/projects/${w.a.project_id}/secrets`, { name, value })
const read = async (name: string) => {
  const { organization_id, project_id } = w.a
  return (await secrets.valuesFor({ id: workspace_id, organization_id, project_id, has_secrets: false }, 'exec', [name])).values[name]
}

test('a rotation that is killed repeatedly continues, every read stays right, and the old key goes at its end', async () => {
  const old = w.sealing_key.key_id
  for (let n = 0; n < VALUES; n++) {
    const { organization_id, project_id } = w.a
    await seedSecret(w.database.superuser, w.sealing_key, { organization_id, project_id, name: `K${n}`, value: `value ${n}` })
  }
  let reads = 0
  const ended = new AbortController()
  const reading = (async () => {
    while (!ended.signal.aborted) {
      const n = Math.floor(Math.random() * VALUES)
      assert.equal(await read(`K${n}`), `value ${n}`)
      reads += 1
      await wait(20)
    }
  })()
  for (let kill = 0; kill < KILLS; kill++) {
    const child = spawn(process.execPath, [ADMIN_PROGRAM, 'keys', 'rotate-kek'], { env: env(), stdio: 'ignore' })
    const exited = once(child, 'exit')
    await Promise.race([exited, wait(300 + Math.random() * 700)])
    child.kill('SIGKILL')
    await exited
  }
  const now = await admin('keys', 'rotate-kek')
  ended.abort()
  await reading
  assert.ok(reads > 20, `${reads} reads`)
  const states = await keys()
  assert.equal(states.reduce((sum, { values }) => sum + values, 0), VALUES) // prettier-ignore
  assert.deepEqual([states[0]?.key_id, states[0]?.values], [now, VALUES])
  for (const { key_id } of states.slice(1)) await admin('keys', 'retire-kek', key_id)
  assert.deepEqual((await keys()).map(({ key_id }) => key_id), [now]) // prettier-ignore
  assert.notEqual(now, old)
  for (const n of [0, VALUES - 1]) assert.equal(await read(`K${n}`), `value ${n}`)
  const files = readdirSync(directory)
  assert.ok(files.every((file) => (statSync(join(directory, file)).mode & 0o777) === 0o600))
})

test('no remaining key opens an erased value once the previous key is retired', async () => {
  const [before] = await keys()
  const { id } = (await create('ERASED', 'canary-erased')).body
  const row = await w.database.superuser.selectFrom('secret_versions').selectAll().where('secret_id', '=', id).executeTakeFirstOrThrow()
  const { key_id, wrapped_key } = row // a backup, a dead row or the write-ahead log still contains this row
  assert.ok(key_id !== null && wrapped_key !== null && key_id === before?.key_id)
  const subject = { purpose: 'data_key', row: `secret_versions/${w.a.organization_id}/${id}/1` }
  const left = async () => Promise.all((await keys()).map(({ file }) => openSealingKey(directory, file?.replace('.jwk.json', '') ?? '')))
  await w.post(`/v1/secrets/${id}/versions`, { value: 'second' })
  await openerOf(await left()).open(subject, { key_id, sealed: wrapped_key }) // before the key's retirement its owner can open the value
  await admin('keys', 'rotate-kek')
  assert.match(await refused('keys', 'retire-kek', (await keys())[0]?.key_id ?? ''), /rotate first/)
  await admin('keys', 'retire-kek', key_id)
  await assert.rejects(openerOf(await left()).open(subject, { key_id, sealed: wrapped_key }), /not here/)
  for (const key of await left()) await assert.rejects(openerOf([key]).open(subject, { key_id: key.key_id, sealed: wrapped_key }))
  assert.equal(await read('ERASED'), 'second')
})

test('a key that still seals values stays, and an unknown key is reported', async () => {
  await create('STAYS', 'v')
  const [now] = await keys()
  const file = await admin('keys', 'prepare-kek')
  const next = await openSealingKey(directory, file.replace('.jwk.json', ''))
  const created_at = new Date(w.clock.now().getTime() + 1000)
  await w.database.superuser
    .insertInto('sealing_keys')
    .values({ key_id: next.key_id, public_jwk: JSON.stringify(next.public_jwk), created_at })
    .execute()
  assert.match(await refused('keys', 'retire-kek', now?.key_id ?? ''), /still need/)
  assert.match(await refused('keys', 'retire-kek', 'nobody'), /no key/)
  assert.match(await refused('keys', 'rotate-kek', '--use', 'nobody.jwk.json'), /has no key/)
  assert.equal(await admin('keys', 'rotate-kek'), next.key_id) // continues the rotation that had begun
  assert.equal(await read('STAYS'), 'v')
})

test('with several computers a key is prepared first, so that each has it before it seals anything', async () => {
  await w.database.superuser
    .insertInto('cells')
    .columns(['id', 'name', 'endpoint', 'created_at'])
    .expression((e) =>
      e
        .selectFrom('cells')
        .select((c) => [c.val(w.ids.next()).as('id'), c.val('other').as('name'), 'endpoint', 'created_at'])
        .limit(1),
    )
    .execute()
  assert.match(await refused('keys', 'rotate-kek'), /prepare-kek/)
  const file = await admin('keys', 'prepare-kek')
  const key_id = await admin('keys', 'rotate-kek', '--use', file)
  assert.deepEqual((await keys())[0], { ...(await keys())[0], key_id, file, state: 'active' })
  assert.match(await refused('keys', 'rotate-kek', '--use', file), /in use already/)
})

test('a file without a key is reported and stops nothing; a missing file is reported at the start', async () => {
  writeFileSync(join(directory, 'spoilt.jwk.json'), '{}')
  await using other = await world()
  const log: string[] = []
  await openSecretKeys({ directory, command: '', db: other.database.cell, clock: other.clock, log: collectingLog(log) })
  assert.match(log.join(''), /spoilt\.jwk\.json/)
  assert.match(log.join(''), new RegExp(`${other.sealing_key.key_id}.*a sealing key is missing`))
})

test("a key service wraps the next key's file; while the service is down, unopened values cannot be read", async () => {
  await w.database.superuser.deleteFrom('cells').where('name', '=', 'other').execute()
  command = await keyService(await mkdtemp(join(tmpdir(), 'kms-')))
  const before = await keys()
  await create('WRAPPED', 'kept by a service')
  const key_id = await admin('keys', 'rotate-kek')
  const [now] = await keys()
  assert.deepEqual([now?.key_id, now?.file?.endsWith('.wrapped.json')], [key_id, true])
  for (const { key_id } of before) await admin('keys', 'retire-kek', key_id)
  const away = join(dirname(command), 'away')
  writeFileSync(away, '')
  const log = collectingLog(logged)
  const opener = await openSecretKeys({ directory, command, db: w.database.cell, clock: w.clock, log })
  assert.ok(logged.some((line) => line.includes('a sealing key is missing') && line.includes('the key service is away')))
  const deps = { db: w.database.cell, opener, clock: w.clock }
  const of_service = createSecrets({ ...deps, authorities: createAuthorities({ ...deps, ids: createIds(w.clock) }), log }, 1_000_000)
  const { organization_id, project_id } = w.a
  const user = { id: workspace_id, organization_id, project_id, has_secrets: false }
  const value = async () => (await of_service.valuesFor(user, 'exec', ['WRAPPED'])).values
  await assert.rejects(value(), { code: 'dependency_unavailable' })
  unlinkSync(away)
  await until('the key service is back', 60_000, async () => (await value().catch(() => null))?.['WRAPPED'] === 'kept by a service')
  writeFileSync(away, '')
  assert.deepEqual(
    await Promise.all([1, 2, 3].map(value)),
    [1, 2, 3].map(() => ({ WRAPPED: 'kept by a service' })),
  ) // the key is open
})
