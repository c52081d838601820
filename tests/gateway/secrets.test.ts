import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import pino from 'pino'
import { createAuthorities } from '../../service/cell/policies/secrets/authorities.ts'
import { createSecrets } from '../../service/cell/policies/secrets/resolve.ts'
import { createIds } from '../../service/lib/ids.ts'
import { openerOf } from '../../service/core/keys/ring/sealed-values.ts'
import { openDatabase } from '../../service/db/database.ts'
import { seedSecret, seedVersion, type SeededSecret } from '../support/secrets.ts'
import { FakeTerminal } from './support/fake-terminal.ts'
import { type Bench, openBench, refusalOf } from './support/gateway.ts'

let bench: Bench
before(async () => {
  bench = await openBench({ secret_resolutions_per_minute: 1000 })
  scopeOf(bench)
})
after(() => bench[Symbol.asyncDispose]())

function scopeOf({ table, workspace_id, organization_id, project_id }: Bench): void {
  table.set(workspace_id, { organization_id, project_id })
}

const seed = (given: Pick<SeededSecret, 'name' | 'value'> & Partial<SeededSecret>, at = bench) =>
  seedSecret(at.database.superuser, at.sealing_key, { organization_id: at.organization_id, project_id: at.project_id, ...given })
const bind = async (names: string[], { database, workspace_id, project_id }: Bench = bench) => {
  await database.superuser.deleteFrom('workspace_secrets').execute()
  if (names.length === 0) return
  await database.superuser
    .insertInto('workspace_secrets')
    .values(names.map((name) => ({ workspace_id, project_id, name })))
    .execute()
}
const start = (session_id: string, json: object = {}, at = bench) =>
  at.call('POST', '/exec', { json: { session_id, argv: ['env'], ...json } })
const started = (session_id: string) => bench.agent.sessions.get(session_id)?.request ?? {}
const TEMPLATE = { FROM: 'input', LOWEST: 'template', MIDDLE: 'input' }

test('a command gets the values of bound and named secrets, which override its other variables', async () => {
  await seed({ name: 'BOUND', value: 'of the project' })
  await seed({ name: 'NAMED', value: 'named' })
  await seed({ name: 'SHARED', value: "of the organization's", project_id: null })
  await seed({ name: 'BOUND', value: 'hidden by the project', project_id: null })
  await bind(['BOUND', 'SHARED'])
  assert.equal((await start('all', { env: { ASKED: 'a' }, secret_refs: ['NAMED', 'BOUND', 'NAMED'] })).status, 201)
  const secrets = { BOUND: 'of the project', SHARED: "of the organization's" }
  assert.deepEqual(started('all')['env'], { ...TEMPLATE, ASKED: 'a', NAMED: 'named', ...secrets })
  await start('next')
  assert.deepEqual(started('next')['env'], { ...TEMPLATE, ...secrets })
})

test('a secret with hosts is a placeholder in the environment, unique to the workspace and unchanged by rotations', async () => {
  const hosts = [{ host: 'api.example.com', ports: [443] }]
  const secret_id = await seed({ name: 'SENT', value: 'never seen', hosts })
  await bind(['SENT'])
  await start('sent')
  const env = started('sent')['env'] as Record<string, string>
  assert.match(env['SENT'] ?? '', /^berth-secret-[0-9a-f]{40}$/)
  assert.equal(env['NODE_EXTRA_CA_CERTS'], '/usr/local/share/ca-certificates/berth-authority.crt')
  assert.ok(!JSON.stringify(started('sent')).includes('never seen'))
  const { organization_id, database } = bench
  await seedVersion(database.superuser, bench.sealing_key, { organization_id, secret_id, version: 2 }, 'two')
  await database.superuser.updateTable('secrets').set({ version: 2 }).where('id', '=', secret_id).execute()
  await start('sent-again')
  assert.deepEqual(started('sent-again')['env'], env)
  const trusted = bench.agent.files.get('/etc/ssl/certs/ca-certificates.crt')?.toString() ?? ''
  assert.equal(trusted.match(/BEGIN CERTIFICATE/g)?.length, 1)
  await bind([])
  assert.equal(await refusalOf(await start('only-named', { secret_refs: ['SENT'] })), '403 forbidden/secret_not_available')
})

test('the next start has the new value, and an id means the same command whatever the value', async () => {
  const secret_id = await seed({ name: 'TURNS', value: 'one' })
  await bind(['TURNS'])
  await start('turn')
  const { organization_id, database } = bench
  await seedVersion(database.superuser, bench.sealing_key, { organization_id, secret_id, version: 2 }, 'two')
  await database.superuser.updateTable('secrets').set({ version: 2 }).where('id', '=', secret_id).execute()
  assert.equal((await start('turn')).status, 200)
  await start('turn-2')
  const value = (id: string) => (started(id)['env'] as Record<string, string>)['TURNS']
  assert.deepEqual([value('turn'), value('turn-2')], ['one', 'two'])
  const { fingerprint } = started('turn')
  assert.match(String(fingerprint), /^[0-9a-f]{64}$/)
})

test('the names of secrets belong to the request that an id is used for', async () => {
  await seed({ name: 'REF_A', value: 'a' })
  await seed({ name: 'REF_B', value: 'b' })
  await bind([])
  await start('refs', { secret_refs: ['REF_A', 'REF_B'] })
  assert.equal((await start('refs', { secret_refs: ['REF_B', 'REF_A'] })).status, 200)
  assert.equal(await refusalOf(await start('refs', { secret_refs: ['REF_A'] })), '409 conflict/operation_id_reused')
})

test('a secret whose name is already a variable is refused, whatever defines the variable', async () => {
  for (const name of ['FROM', 'LOWEST', 'MIDDLE', 'OF_REQUEST', 'HOME', 'TERM']) {
    await seed({ name, value: 'v' })
    const json = { env: { OF_REQUEST: 'r' } }
    await bind([name])
    const bound = await start(`collides-${name}`, json)
    const { error } = (await bound.clone().json()) as { error: { details: { name: string } } }
    assert.deepEqual([await refusalOf(bound), error.details.name], ['422 validation_failed/env_collision', name])
    await bind([])
    assert.equal(await refusalOf(await start(`collides-${name}`, { ...json, secret_refs: [name] })), '422 validation_failed/env_collision')
    assert.equal(bench.agent.sessions.has(`collides-${name}`), false)
  }
})

test('a secret that may not be used is left out if bound, and refuses the start if named', async () => {
  await seed({ name: 'OTHERS', value: 'v', allowed_workspace_ids: ['018f0000-0000-7000-8000-000000000001'] })
  await seed({ name: 'NO_EXEC', value: 'v', allowed_tools: ['pty'] })
  await seed({ name: 'FINE', value: 'fine' })
  await bind(['OTHERS', 'NO_EXEC', 'FINE', 'NOBODYS'])
  await start('left-out')
  assert.deepEqual(started('left-out')['env'], { ...TEMPLATE, FINE: 'fine' })
  const refused = await start('refused', { secret_refs: ['FINE', 'NOBODYS', 'NO_EXEC', 'OTHERS'] })
  const { error } = (await refused.clone().json()) as { error: { details: { names: string[] } } }
  assert.deepEqual(
    [await refusalOf(refused), error.details.names],
    ['403 forbidden/secret_not_available', ['NOBODYS', 'NO_EXEC', 'OTHERS']],
  )
  assert.equal(bench.agent.sessions.has('refused'), false)
})

test('a secret of another organization or project does not exist', async () => {
  const stranger = '018f0000-0000-7000-8000-0000000000ff'
  const db = bench.database.superuser
  await sql`insert into organizations (id, name, slug, plan_id, created_at) select ${stranger}, 's', 's', plan_id, now() from organizations limit 1`.execute(
    db,
  )
  await sql`insert into projects (id, organization_id, name, slug, created_at) values (${stranger}, ${bench.organization_id}, 's', 's', now())`.execute(
    db,
  )
  await seed({ name: 'STRANGE', value: 'v', organization_id: stranger, project_id: null })
  await seed({ name: 'STRANGE', value: 'v', project_id: stranger })
  await bind(['STRANGE'])
  await start('strange')
  assert.deepEqual(started('strange')['env'], TEMPLATE)
  assert.equal(await refusalOf(await start('strange-2', { secret_refs: ['STRANGE'] })), '403 forbidden/secret_not_available')
})

test('a terminal gets secrets by its own tool', async () => {
  await using other = await openBench()
  scopeOf(other)
  const terminal = new FakeTerminal(other.agent)
  await seed({ name: 'PTY_ONLY', value: 'p', allowed_tools: ['pty'] }, other)
  await seed({ name: 'EXEC_ONLY', value: 'e', allowed_tools: ['exec'] }, other)
  await bind(['EXEC_ONLY'], other)
  const token = await other.token({ tools: ['pty'] })
  const open = (json: object) => other.call('POST', '/pty', { json, token })
  assert.equal((await open({ session_id: 't', secret_refs: ['PTY_ONLY'] })).status, 201)
  assert.deepEqual((terminal.asked[0]?.body as { env: object }).env, { ...TEMPLATE, PTY_ONLY: 'p' })
  assert.equal(await refusalOf(await open({ secret_refs: ['EXEC_ONLY'] })), '403 forbidden/secret_not_available')
  await seed({ name: 'SIZE', value: 'v' }, other)
  assert.equal(await refusalOf(await open({ env: { SIZE: 'x' }, secret_refs: ['SIZE'] })), '422 validation_failed/env_collision')
})

test('a secret that cannot be opened is 503, and neither answer nor log reveals any of it', async () => {
  const secret_id = await seed({ name: 'SPOILT', value: 'canary-spoilt' })
  await sql`update secret_versions set ciphertext = set_byte(ciphertext, 40, get_byte(ciphertext, 40) # 1) where secret_id = ${secret_id}`.execute(
    bench.database.superuser,
  )
  await bind(['SPOILT'])
  const refused = await start('spoilt')
  const text = await refused.clone().text()
  assert.equal(await refusalOf(refused), '503 dependency_unavailable')
  assert.equal(bench.agent.sessions.has('spoilt'), false)
  const log = bench.logged.join('')
  assert.ok(log.includes(secret_id) && !log.includes('canary-spoilt') && !text.includes('canary-spoilt'))
  await bind([])
})

test('secret values are in no log line and no answer, whatever the refusal', async () => {
  await seed({ name: 'CANARY', value: 'canary-value' })
  await bind(['CANARY'])
  const answers = [
    await start('quiet'),
    await start('quiet'),
    await start('quiet', { argv: ['other'] }),
    await start('quiet-2', { env: { CANARY: 'x' } }),
    await start('quiet-3', { cwd: 'relative' }),
    await bench.call('GET', '/exec/quiet'),
  ]
  const texts = await Promise.all(answers.map((answer) => answer.text()))
  assert.deepEqual(answers.map(({ status }) => status), [201, 200, 409, 422, 422, 200]) // prettier-ignore
  assert.ok(!texts.join('').includes('canary-value') && !bench.logged.join('').includes('canary-value'))
})

test('secrets that together exceed the size of an environment are refused', async () => {
  for (const name of ['BIG_A', 'BIG_B', 'BIG_C']) await seed({ name, value: 'x'.repeat(60_000) })
  await bind(['BIG_A', 'BIG_B'])
  assert.equal((await start('big')).status, 201)
  assert.equal(await refusalOf(await start('bigger', { secret_refs: ['BIG_C'] })), '413 payload_too_large')
})

test('without the database a workspace without secrets goes on, and no other does', async () => {
  const { clock, workspace_id, organization_id, project_id } = bench
  const db = openDatabase({ url: 'postgres:///none?host=/nowhere', role: null, connections_max: 1, application_name: 'away' })
  const opener = openerOf([bench.sealing_key])
  const authorities = createAuthorities({ db, opener, clock, ids: createIds(clock) })
  const secrets = createSecrets({ db, opener, authorities, clock, log: pino({ level: 'silent' }) })
  const workspace = { id: workspace_id, organization_id, project_id }
  assert.deepEqual(await secrets.valuesFor({ ...workspace, has_secrets: false }, 'exec', []), { values: {}, authority: null })
  await assert.rejects(secrets.valuesFor({ ...workspace, has_secrets: true }, 'exec', []), { code: 'ENOENT' })
  await assert.rejects(secrets.valuesFor({ ...workspace, has_secrets: false }, 'exec', ['NAMED']), { code: 'ENOENT' })
  await db.destroy()
})

test('reads of secrets are counted: too many are 429 with Retry-After', async () => {
  await using few = await openBench({ secret_resolutions_per_minute: 2 })
  scopeOf(few)
  await start('free', {}, few)
  await seed({ name: 'COUNTED', value: 'v' }, few)
  await bind(['COUNTED'], few)
  for (const id of ['one', 'two']) assert.equal((await start(id, {}, few)).status, 201)
  const refused = await start('three', {}, few)
  assert.deepEqual([refused.headers.get('retry-after'), await refusalOf(refused)], ['30', '429 rate_limited'])
  await bind([], few)
  assert.equal((await start('four', {}, few)).status, 201)
})
