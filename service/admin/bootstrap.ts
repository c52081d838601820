import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { isDeepStrictEqual } from 'node:util'
import pg from 'pg'
import type { PlatformTemplate, SetupConfig } from '../config.ts'
import { serviceOrigin } from '../core/changes/audit.ts'
import { mutate } from '../core/changes/mutate.ts'
import { latestVersion, publishVersion } from '../core/templates/store.ts'
import { type Db, openDatabase } from '../db/database.ts'
import { subjectOf } from './command.ts'
import { migrate } from '../db/migrate.ts'
import { type Clock, systemClock } from '../lib/clock.ts'
import { createIds, type Ids } from '../lib/ids.ts'
import { firstKey, readKey } from './first-key.ts'
import { checkSettings } from './template-settings.ts'

const DATABASE_WAIT_MS = 60_000

/** Each step is repeatable, so setup may run again after any interruption. */
export async function bootstrap(config: SetupConfig): Promise<void> {
  await databaseAnswers(config)
  if (config.embedded) await createLogins(config.database_url)
  const applied = await migrate(config.database_url)
  for (const name of applied) process.stdout.write(`migration ${name} is applied\n`)
  const db = openDatabase({ url: config.database_url, role: null, connections_max: 2, application_name: 'berth-bootstrap' })
  const at = { clock: systemClock, ids: createIds(systemClock) }
  try {
    const api_key = await firstKey(db, config.first_key_file, at)
    for (const template of config.templates) await publishTemplate(db, template, at)
    await announce(config, api_key)
  } finally {
    await db.destroy()
  }
}

/** PostgreSQL refuses logins for a while after a crash, so this waits until the database answers. */
async function databaseAnswers({ database_url, embedded }: SetupConfig): Promise<void> {
  const deadline_ms = performance.now() + DATABASE_WAIT_MS
  const url = embedded ? database_url.replace(/^postgres:\/\/\/[^?]+/, 'postgres:///postgres') : database_url
  for (;;) {
    const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5000 })
    client.on('error', () => undefined) // the pending call reports the error
    try {
      await client.connect()
      if (embedded) await createDatabase(client, database_url)
      return await client.end()
    } catch (cause) {
      await client.end().catch(() => undefined) // the client is not connected
      if (performance.now() > deadline_ms) throw new Error('The database does not answer', { cause })
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }
}

async function createDatabase(client: pg.Client, url: string): Promise<void> {
  const name = new URL(url.replace(':///', '://embedded/')).pathname.slice(1)
  const { rowCount } = await client.query('select from pg_database where datname = $1', [name])
  if (rowCount === 0) await client.query(`create database ${pg.escapeIdentifier(name)}`)
}

/** Only for the embedded server. With an external server one login has both roles. */
async function createLogins(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    for (const role of ['berth_api', 'berth_cell']) {
      const { rowCount } = await client.query('select from pg_roles where rolname = $1', [role])
      if (rowCount === 0) await client.query(`create role ${role} login`)
    }
  } finally {
    await client.end()
  }
}

async function publishTemplate(db: Db, template: PlatformTemplate, at: { clock: Clock; ids: Ids }): Promise<void> {
  const settings = checkSettings(template.settings, `Template ${template.name}`)
  const latest = await latestVersion(db, null, template.name)
  const layers = [template.digest]
  if (latest !== undefined && isDeepStrictEqual(latest.layers, layers) && isDeepStrictEqual(latest.settings, settings)) return
  // An upgrade must never allow more egress: the operator's ceiling is copied.
  const next = { organization_id: null, slug: template.name, layered: true, layers, settings, egress: latest?.egress ?? null }
  const here = { ids: at.ids, now: at.clock.now() }
  const { version } = await mutate(
    db,
    serviceOrigin('setup', here),
    'template-versions.publish',
    (tx) => publishVersion(tx, next, here),
    (made) => subjectOf('template_version', made.id, {}, { slug: template.name, version: made.version }),
  )
  process.stdout.write(`template ${template.name} version ${version} is published\n`)
}

/** The start script shows this file and then removes it. */
async function announce(config: SetupConfig, api_key: string | null): Promise<void> {
  // An announcement that still exists was never shown, because its start failed.
  const unseen = existsSync(config.announcement_file) ? await readKey(config.first_key_file).catch(() => null) : null
  const shown = api_key ?? unseen?.api_key
  const bearer = shown ?? `$(cat ${config.first_key_file})`
  const curl = `curl -sS ${config.base_url}/v1/workspaces/open -H "Authorization: Bearer ${bearer}" -H 'Content-Type: application/json' -H 'Prefer: wait=20' -d '{"key":"hello","template":"base"}'`
  const key = shown === undefined ? [] : ['', `  The first project's API key, also in ${config.first_key_file}:`, `  ${shown}`]
  const mail = config.mail_directory ? ['', `  Mail is not sent, but lies in ${config.mail_directory}: set smtp_url`] : []
  const lines = ['', `  Berth serves at ${config.base_url}`, ...key, ...mail, '', '  Open a workspace:', `  ${curl}`, '']
  await writeFile(config.announcement_file, `${lines.join('\n')}\n`, { mode: 0o600 })
}
