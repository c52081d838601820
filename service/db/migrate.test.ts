import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from 'kysely'
import { freshDatabase } from '../../tests/support/postgres.ts'
import { migrate } from './migrate.ts'

test('migrating a database that is up to date applies nothing', async () => {
  await using database = await freshDatabase()
  assert.deepEqual(await migrate(database.url), [])
})

/** What each process must not read: of hashes of credentials, of people, and of what is kept for callers. */
const CLOSED = {
  cell: {
    api_keys: ['secret_sha256', 'key_id', 'name', 'project_id'],
    person_sessions: ['token_sha256', 'person_id', 'expires_at'],
    people: ['email', 'id', 'display_name'],
    idempotency_entries: ['outcome', 'fingerprint'],
    agent_sessions: ['principal_id', 'agent_label'],
    organizations: ['name', 'slug', 'plan_id', 'allowance'],
    plans: ['slug'],
    projects: ['name'],
    templates: ['slug'],
    rate_buckets: ['name'],
  },
  api: { usage_counters: ['cpu_usec', 'workspace_id'] },
}
/** And what it reads beside them. */
const OPEN = {
  cell: {
    api_keys: ['id', 'tool_permissions', 'expires_at', 'revoked_at', 'tools_changed_at'],
    memberships: ['organization_id', 'person_id', 'role'],
    organizations: ['id', 'allowance_exhausted'],
    idempotency_entries: ['principal', 'route', 'key', 'created_at'],
    agent_sessions: ['workspace_id'],
  },
  api: { api_keys: ['secret_sha256'], person_sessions: ['token_sha256'], people: ['email'], usage_samples: ['hour'] },
}

test('each process reads the columns that it needs of credentials and people, and no other', async () => {
  await using database = await freshDatabase()
  for (const role of ['cell', 'api'] as const) {
    const read = async (table: string, column: string) => sql`select ${sql.ref(column)} from ${sql.table(table)}`.execute(database[role])
    for (const [table, columns] of Object.entries(CLOSED[role])) {
      for (const column of [...columns, '*']) {
        await assert.rejects(column === '*' ? sql`select * from ${sql.table(table)}`.execute(database[role]) : read(table, column), {
          message: `permission denied for table ${table}`,
        })
      }
    }
    for (const [table, columns] of Object.entries(OPEN[role])) for (const column of columns) await read(table, column)
  }
})

test('three processes that migrate an empty database at once apply every migration once', async () => {
  await using database = await freshDatabase()
  await sql`drop schema public cascade`.execute(database.superuser)
  await sql`create schema public`.execute(database.superuser)
  await sql`grant usage on schema public to public`.execute(database.superuser)
  const applied = (await Promise.all([1, 2, 3].map(() => migrate(database.url)))).flat()
  const { rows } = await sql<{ name: string }>`select name from kysely_migration order by name`.execute(database.superuser)
  assert.deepEqual(
    applied.sort(),
    rows.map((row) => row.name),
  )
})

test('the role of each process may read, and may not write what is not its own', async () => {
  await using database = await freshDatabase()
  assert.deepEqual(await database.api.selectFrom('plans').selectAll().execute(), [])
  for (const db of [database.api, database.cell]) {
    await assert.rejects(db.deleteFrom('organizations').execute(), /permission denied/)
  }
  await assert.rejects(database.cell.deleteFrom('signing_keys').execute(), /permission denied/)
})
