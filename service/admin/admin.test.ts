import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'
import { moneySeeds } from '../../tests/api/money-seeds.ts'
import { freshDatabase } from '../../tests/support/postgres.ts'
import type { SetupConfig } from '../config.ts'
import type { Db } from '../db/database.ts'
import { mutate } from '../core/changes/mutate.ts'
import { systemClock } from '../lib/clock.ts'
import { createIds } from '../lib/ids.ts'
import { bootstrap } from './bootstrap.ts'
import { AdminError, type Command, type Context, UsageError } from './command.ts'
import { BILLING_COMMANDS } from './billing.ts'
import { GRANT_COMMANDS } from './grants.ts'
import { KEY_COMMANDS } from './keys.ts'
import { byOperator } from './operator.ts'
import { ORGANIZATION_COMMANDS } from './organizations.ts'
import { PERSON_COMMANDS } from './people.ts'
import { PLAN_COMMANDS } from './plans.ts'
import { STANDING_COMMANDS } from './standing.ts'
import { adminEnd } from '../../tests/support/admin.ts'

const folder = mkdtempSync('/tmp/berth-admin-test-')
after(() => rmSync(folder, { recursive: true }))

const SETTINGS = {
  env: { LANG: 'C.UTF-8' },
  inputs: {},
  defaults: { cpu_millis: 1000, memory_mib: 512, disk_gib: 5 },
  ceiling: { cpu_millis: 2000, memory_mib: 1024, disk_gib: 10 },
}

function setup(database_url: string, digest = 'a'.repeat(64)): SetupConfig {
  const name = path.join(folder, Buffer.from(database_url).toString('hex').slice(-40))
  return {
    database_url,
    embedded: false,
    base_url: 'http://127.0.0.1:1',
    first_key_file: `${name}.key`,
    announcement_file: `${name}.text`,
    templates: [{ name: 'base', digest, settings: SETTINGS }],
  }
}

const admin = (database_url: string, ...args: string[]) => adminEnd({ database_url }, ...args)

test('the first bootstrap makes a key with all tools, and the next ones change nothing', async () => {
  await using database = await freshDatabase()
  const config = setup(database.url)
  await bootstrap(config)
  const key = readFileSync(config.first_key_file, 'utf8').trim()
  assert.match(key, /^sfk_[0-9a-f]{16}_[0-9a-f]{64}$/)
  assert.ok(readFileSync(config.announcement_file, 'utf8').includes(key))
  rmSync(config.announcement_file) // the start script removes it after showing it
  await bootstrap(config)
  assert.ok(!readFileSync(config.announcement_file, 'utf8').includes(key))
  const [row, ...others] = await database.superuser.selectFrom('api_keys').selectAll().execute()
  assert.deepEqual([row?.key_id, row?.tool_permissions.length, others.length], [key.split('_')[1], 6, 0])
  const versions = await database.superuser.selectFrom('template_versions').selectAll().execute()
  assert.deepEqual(
    versions.map(({ version, layers, settings }) => ({ version, layers, settings })),
    [{ version: 1, layers: ['a'.repeat(64)], settings: SETTINGS }],
  )
})

test('a bootstrap killed between file and database activates the key of the file', async () => {
  await using database = await freshDatabase()
  const config = setup(database.url)
  const key = `sfk_${'1'.repeat(16)}_${'2'.repeat(64)}`
  writeFileSync(config.first_key_file, `${key}\n`)
  await bootstrap(config)
  assert.equal(readFileSync(config.first_key_file, 'utf8').trim(), key)
  const { key_id } = await database.superuser.selectFrom('api_keys').select('key_id').executeTakeFirstOrThrow()
  assert.equal(key_id, '1'.repeat(16))
})

test('a changed image is published as the next version', async () => {
  await using database = await freshDatabase()
  await bootstrap(setup(database.url))
  await bootstrap(setup(database.url, 'b'.repeat(64)))
  const versions = await database.superuser.selectFrom('template_versions').select(['version', 'layers']).orderBy('version').execute()
  assert.deepEqual(versions, [
    { version: 1, layers: ['a'.repeat(64)] },
    { version: 2, layers: ['b'.repeat(64)] },
  ])
})

test('an operator makes an organization, a project and a key, narrows the key and revokes it', async () => {
  await using database = await freshDatabase()
  const { url } = database
  assert.equal((await admin(url, 'organization', 'create', 'acme')).code, 0)
  assert.equal((await admin(url, 'project', 'create', 'web', '--organization', 'acme')).code, 0)
  const made = await admin(
    url,
    'key',
    'create',
    '--organization',
    'acme',
    '--project',
    'web',
    '--tools',
    'files,exec',
    '--expires-in-days',
    '7',
    '--quiet',
  )
  assert.deepEqual([made.code, made.stderr], [0, ''])
  assert.match(made.stdout, /^sfk_[0-9a-f]{16}_[0-9a-f]{64}\n$/)
  const key_id = made.stdout.split('_')[1] ?? ''
  assert.equal((await admin(url, 'key', 'tools', key_id, '--tools', 'exec,files,git')).code, 0)
  const widened = await database.superuser.selectFrom('api_keys').selectAll().executeTakeFirstOrThrow()
  assert.deepEqual([widened.tool_permissions, widened.tools_changed_at], [['exec', 'files', 'git'], null])
  assert.equal((await admin(url, 'key', 'tools', key_id, '--tools', 'exec')).code, 0)
  assert.equal((await admin(url, 'key', 'revoke', key_id)).code, 0)
  const ended = await database.superuser.selectFrom('api_keys').selectAll().executeTakeFirstOrThrow()
  assert.ok(ended.tools_changed_at !== null && ended.revoked_at !== null && ended.expires_at !== null)
  const [listed] = JSON.parse((await admin(url, 'key', 'list', '--json')).stdout) as Record<string, unknown>[]
  assert.deepEqual([listed?.['key_id'], listed?.['organization'], listed?.['project']], [key_id, 'acme', 'web'])
})

test('plans limit and refuse starts, and an organization gets a plan', async () => {
  await using database = await freshDatabase()
  const { url } = database
  await admin(url, 'organization', 'create', 'acme')
  assert.equal((await admin(url, 'plan', 'create', 'small', '--concurrent-workspaces', '2', '--memory-mib', '1024')).code, 0)
  assert.equal((await admin(url, 'plan', 'set', 'small', '--memory-mib', 'none', '--refuse-starts', 'unpaid')).code, 0)
  assert.equal((await admin(url, 'organization', 'plan', 'acme', 'small')).code, 0)
  assert.equal((await admin(url, 'organization', 'allowance', 'acme', 'allowance_used')).code, 0)
  const plan = await database.superuser.selectFrom('plans').selectAll().where('slug', '=', 'small').executeTakeFirstOrThrow()
  assert.deepEqual([plan.concurrent_workspaces, plan.memory_mib, plan.refuses_starts], [2, null, 'unpaid'])
  const organization = await database.superuser.selectFrom('organizations').selectAll().executeTakeFirstOrThrow()
  assert.deepEqual([organization.plan_id, organization.allowance_exhausted], [plan.id, 'allowance_used'])
})

test('a plan limits volumes, their size and their attachments; a missing limit allows none', async () => {
  await using database = await freshDatabase()
  const { url } = database
  const read = async () => {
    const { shared_volumes_max, shared_volume_gib_max, volume_attachments_per_workspace, missing_volume_limits, missing_limits } =
      await database.superuser.selectFrom('plans').selectAll().where('slug', '=', 'team').executeTakeFirstOrThrow()
    return [shared_volumes_max, shared_volume_gib_max, volume_attachments_per_workspace, missing_volume_limits, missing_limits]
  }
  const set = async (...options: string[]) => (await admin(url, 'plan', 'set', 'team', ...options)).code
  assert.equal((await admin(url, 'plan', 'create', 'team', '--shared-volumes-max', '3', '--shared-volume-gib-max', '20')).code, 0)
  assert.deepEqual(await read(), [3, 20, null, [], []])
  assert.equal(await set('--shared-volumes-max', 'missing', '--volume-attachments-per-workspace', '4', '--memory-mib', 'missing'), 0)
  assert.deepEqual(await read(), [null, 20, 4, ['shared_volumes_max'], ['memory_mib']])
  assert.equal(await set('--shared-volume-gib-max', 'none'), 0)
  assert.deepEqual(await read(), [null, null, 4, ['shared_volumes_max'], ['memory_mib']])
  assert.equal(await set('--shared-volumes-max', '0', '--volume-attachments-per-workspace', 'none'), 0)
  assert.deepEqual(await read(), [0, null, null, [], ['memory_mib']])
  for (const [option, value] of [
    ['--shared-volumes-max', '-1'],
    ['--shared-volume-gib-max', '0'],
    ['--volume-attachments-per-workspace', 'missing'],
  ]) {
    assert.equal(await set(`${option}=${value}`), 2, option)
  }
})

test('a version with settings from a file takes the layers of base, and every bad setting is named', async () => {
  await using database = await freshDatabase()
  await bootstrap(setup(database.url))
  const file = path.join(folder, 'settings.json')
  writeFileSync(file, JSON.stringify({ ...SETTINGS, inputs: { TOKEN: { required: true } } }))
  const published = await admin(database.url, 'template', 'publish', '--slug', 'tuned', '--settings', file, '--layered', 'false')
  assert.deepEqual([published.code, published.stdout], [0, 'tuned version 1\n'])
  const version = await database.superuser
    .selectFrom('template_versions')
    .selectAll()
    .where('layered', '=', false)
    .executeTakeFirstOrThrow()
  assert.deepEqual(version.layers, ['a'.repeat(64)])
  writeFileSync(file, JSON.stringify({ ...SETTINGS, defaults: { ...SETTINGS.defaults, memory_mib: 4096 }, inputs: { LANG: {} } }))
  const refused = await admin(database.url, 'template', 'publish', '--slug', 'tuned', '--settings', file)
  assert.equal(refused.code, 1)
  assert.match(refused.stderr, /defaults.memory_mib is above ceiling.memory_mib[\s\S]*LANG is both an input and in env/)
})

test('a template keeps its egress ceiling until an operator removes it', async () => {
  await using database = await freshDatabase()
  await bootstrap(setup(database.url))
  const [settings, egress] = [path.join(folder, 'ceiling-settings.json'), path.join(folder, 'egress.json')]
  writeFileSync(settings, JSON.stringify(SETTINGS))
  writeFileSync(egress, JSON.stringify({ mode: 'allowlist', rules: [{ host: '*.Example.com' }] }))
  const publish = (...more: string[]) => admin(database.url, 'template', 'publish', '--slug', 'base', '--settings', settings, ...more)
  for (const more of [['--egress', egress], [], ['--egress', 'none'], []]) assert.equal((await publish(...more)).code, 0)
  await database.superuser
    .updateTable('template_versions')
    .set({ egress: '{"mode":"deny_all","rules":[],"cidrs":[]}' })
    .where('version', '=', 5)
    .execute()
  await bootstrap(setup(database.url, 'b'.repeat(64)))
  const versions = await database.superuser.selectFrom('template_versions').select('egress').orderBy('version').execute()
  const ceiling = { mode: 'allowlist', rules: [{ host: '*.example.com', ports: [443], protocols: ['tcp'] }], cidrs: [] }
  const closed = { mode: 'deny_all', rules: [], cidrs: [] }
  assert.deepEqual(
    versions.map((one) => one.egress),
    [null, ceiling, ceiling, null, closed, closed],
  )
  writeFileSync(egress, JSON.stringify({ mode: 'allowlist', rules: [{ host: 'localhost' }], cidrs: ['10.0.0.0/8'] }))
  const refused = await publish('--egress', egress)
  assert.equal(refused.code, 1)
  assert.match(refused.stderr, /rules\.0\.host .*\n- cidrs\.0 /)
})

test('a version on given layers is published once, and again only if the layers differ', async () => {
  await using database = await freshDatabase()
  await bootstrap(setup(database.url))
  const file = path.join(folder, 'settings.json')
  writeFileSync(file, JSON.stringify({ ...SETTINGS, guest_features: ['browser'] }))
  const publish = (layers: string) => admin(database.url, 'template', 'publish', '--slug', 'late', '--settings', file, '--layers', layers)
  const [b, c] = ['b'.repeat(64), 'c'.repeat(64)] as const
  const told = [await publish(b), await publish(b), await publish(`${b},${c}`)].map(({ code, stdout }) => [code, stdout])
  assert.deepEqual(told, [
    [0, 'late version 1\n'],
    [0, 'late version 1\n'],
    [0, 'late version 2\n'],
  ])
  assert.equal((await publish('b')).code, 2)
})

test('a person gets a role and a session', async () => {
  await using database = await freshDatabase()
  await admin(database.url, 'organization', 'create', 'acme')
  assert.equal(
    (await admin(database.url, 'person', 'create', '--email', 'A@example.com', '--organization', 'acme', '--role', 'owner')).code,
    0,
  )
  const session = await admin(database.url, 'session', 'create', '--email', 'a@example.com', '--quiet')
  assert.match(session.stdout, /^sfu_[A-Za-z0-9_-]{43}\n$/)
})

test('revoking the tokens of a missing workspace fails', async () => {
  await using database = await freshDatabase()
  const missing = '01900000-0000-7000-8000-000000000000'
  assert.equal((await admin(database.url, 'workspace', 'revoke-tokens', missing)).code, 1)
  assert.equal((await admin(database.url, 'workspace', 'revoke-tokens', 'w')).code, 2)
})

test('the exit code is 2 for a malformed command and 1 for a missing object', async () => {
  await using database = await freshDatabase()
  const { url } = database
  const code = async (...args: string[]) => (await admin(url, ...args)).code
  assert.deepEqual(
    [
      await code('key', 'create', '--organization', 'nobody', '--project', 'x', '--tools', 'exec'),
      await code('key', 'create', '--tools', 'exec,telnet'),
      await code('key', 'create', '--colour', 'red'),
      await code('key', 'sell'),
      await code('organization', 'create', 'Bad Slug'),
      await code('organization', 'create', 'twice'),
      await code('organization', 'create', 'twice'),
    ],
    [1, 2, 2, 2, 2, 0, 1],
  )
})

const COMMANDS: Record<string, Command> = {
  ...ORGANIZATION_COMMANDS,
  ...KEY_COMMANDS,
  ...PLAN_COMMANDS,
  ...GRANT_COMMANDS,
  ...BILLING_COMMANDS,
  ...PERSON_COMMANDS,
  ...STANDING_COMMANDS,
}

test('each changing command leaves one audit record of its account; lists, repeats and mistakes leave none', async () => {
  await using database = await freshDatabase()
  const at = { clock: systemClock, ids: createIds(systemClock) }
  const change: Context['change'] = (action, work, subject) => mutate(database.superuser, byOperator(at), action, work, subject)
  const lines: string[] = []
  const output = { line: (text: string) => void lines.push(text), note: () => undefined }
  const run = async (...args: string[]) => {
    const command = COMMANDS[args.slice(0, 2).join(' ')]
    assert.ok(command, args.join(' '))
    await command.run(args.slice(2), { db: database.superuser, output, change, ...at })
  }
  await run('organization', 'create', 'acme')
  await run('project', 'create', 'web', '--organization', 'acme')
  await run('key', 'create', '--organization', 'acme', '--project', 'web', '--tools', 'exec', '--quiet')
  const [, key_id = '', secret = ''] = lines.at(-1)?.split('_') ?? []
  assert.match(secret, /^[0-9a-f]{64}$/)
  await run('key', 'tools', key_id, '--tools', 'exec,files')
  await run('key', 'revoke', key_id)
  await run('key', 'revoke', key_id)
  await run('key', 'list')
  await run('plan', 'create', 'small')
  await run('plan', 'set', 'small', '--memory-mib', '512')
  await run('organization', 'plan', 'acme', 'small')
  await run('organization', 'starts', 'acme', 'unpaid')
  await run('organization', 'allowance', 'acme', 'none')
  await run('grant', 'create', 'acme', 'cpu_hours', '2', '--note', 'welcome')
  const grant = lines.at(-1) ?? ''
  await run('grant', 'list', 'acme')
  assert.match(lines.at(-1) ?? '', new RegExp(`${grant} .*cpu_hours +7200 +0 +welcome`))
  await run('grant', 'revoke', grant)
  await run('subscription', 'set', 'acme', 'small')
  await run('subscription', 'list')
  assert.match(lines.at(-1) ?? '', /^acme +small/)
  await run('invoice', 'close')
  const [invoice, voided] = [await invoiceOf(database.superuser, at, 0), await invoiceOf(database.superuser, at, 1)]
  await run('invoice', 'list', 'acme')
  await run('invoice', 'paid', invoice)
  await assert.rejects(run('invoice', 'paid', invoice), AdminError)
  await run('invoice', 'void', voided)
  await assert.rejects(run('invoice', 'void', at.ids.next()), AdminError)
  await assert.rejects(run('invoice', 'paid', 'acme'), UsageError)
  await assert.rejects(run('grant', 'revoke', grant), AdminError)
  await run('person', 'create', '--email', 'A@example.com', '--organization', 'acme', '--role', 'owner')
  await assert.rejects(run('person', 'create', '--email', 'a@example.com', '--organization', 'acme', '--role', 'member'), AdminError)
  await run('session', 'create', '--email', 'a@example.com', '--quiet')
  await run('session', 'revoke', '--email', 'a@example.com')
  await run('session', 'revoke', '--email', 'a@example.com')
  await assert.rejects(run('organization', 'create', 'acme'), AdminError)
  const events = await database.superuser.selectFrom('audit_events').selectAll().orderBy('id').execute()
  assert.deepEqual(
    events.map(({ action }) => action),
    [
      'organizations.create',
      'projects.create',
      'api-keys.create',
      'api-keys.update',
      'api-keys.delete',
      'plans.create',
      'plans.update',
      'organizations.set_plan',
      'organizations.set_starts',
      'organizations.set_allowance',
      'grants.create',
      'grants.revoke',
      'organizations.set_plan',
      'invoices.paid',
      'invoices.void',
      'members.create',
      'sessions.create',
      'auth.end_session',
    ],
  )
  const account = userInfo().username
  assert.deepEqual(
    new Set(events.map(({ actor_kind, actor_name }) => `${actor_kind} ${actor_name ?? ''}`)),
    new Set([`operator ${account}`]),
  )
  assert.ok(!JSON.stringify(events).includes(secret), 'a secret stands in a record')
})

test('two spellings of an address are one person', async () => {
  await using database = await freshDatabase()
  const insert = (email: string, id: string) =>
    database.superuser.insertInto('people').values({ id, email, display_name: null, created_at: new Date() }).execute()
  await insert('a@example.com', '01900000-0000-7000-8000-000000000001')
  await assert.rejects(insert('A@Example.com', '01900000-0000-7000-8000-000000000002'), { code: '23505' })
})

async function invoiceOf(db: Db, { clock, ids }: Pick<Context, 'clock' | 'ids'>, month: number): Promise<string> {
  const { organization_id } = await db
    .selectFrom('organizations')
    .select('id as organization_id')
    .where('slug', '=', 'acme')
    .executeTakeFirstOrThrow()
  return moneySeeds(db, ids, clock.now()).invoice(organization_id, month)
}
