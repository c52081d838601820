import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import pg from 'pg'
import { freshDatabase, type TestDatabase } from '../../tests/support/postgres.ts'
import { grantChanges, wantedRights } from './grant-rules.ts'
import { GRANTS, type Rights } from './grants.ts'
import { migrate } from './migrate.ts'
import { connectionConfig } from './options.ts'
import { readRights, type Right } from './rights.ts'

let database: TestDatabase
let columns: Map<string, string[]>
before(async () => {
  database = await freshDatabase()
  const { rows } = await sql<{ table: string; columns: string[] }>`
    select c.relname as "table", array_agg(a.attname::text order by a.attnum) as columns
    from pg_class c join pg_attribute a on a.attrelid = c.oid
    where c.relkind = 'r' and c.relnamespace = 'public'::regnamespace and a.attnum > 0 and not a.attisdropped group by 1`.execute(
    database.superuser,
  )
  columns = new Map(rows.map((row) => [row.table, row.columns]))
})
after(() => database[Symbol.asyncDispose]())

const read = () => readRights((text) => sql.raw<Right>(text).execute(database.superuser))

test('every table is in grants.ts', () => {
  assert.deepEqual([...columns.keys()].filter((table) => table !== 'kysely_migration_lock').sort(), Object.keys(GRANTS).sort())
})

test('the rights in the database are those of grants.ts, and PUBLIC has none', async () => {
  const written = (rights: Right[]) => rights.map(({ table, role, privilege, column }) => [table, role, privilege, column].join(' ')).sort()
  assert.deepEqual(written(await read()), written(wantedRights()))
  const { rows } = await sql`select relname from pg_class where relnamespace = 'public'::regnamespace and relacl::text ~ '[{,]='`.execute(
    database.superuser,
  )
  assert.deepEqual(rows, []) // rights of PUBLIC
})

const FORMS = {
  select: (table: string, column: string) => sql`select ${sql.ref(column)} from ${sql.table(table)} limit 0`,
  insert: (table: string, column: string) => sql`insert into ${sql.table(table)} (${sql.ref(column)}) select null where false`,
  update: (table: string, column: string) => sql`update ${sql.table(table)} set ${sql.ref(column)} = null where false`,
}
type Form = keyof typeof FORMS

function rightsOf(table: string, role: 'api' | 'cell'): Rights<string> {
  return GRANTS[table as keyof typeof GRANTS][role] // another test checks that GRANTS names each table
}

for (const role of ['api', 'cell'] as const) {
  for (const privilege of Object.keys(FORMS) as Form[]) {
    test(`PostgreSQL lets the ${role} ${privilege} the columns of its own, and refuses every other`, async () => {
      for (const [table, all] of columns) {
        if (table === 'kysely_migration_lock') continue
        const rights = rightsOf(table, role)
        const own = rights[privilege] ?? []
        for (const column of all) {
          const tried = FORMS[privilege](table, column).execute(database[role])
          if (own === 'all' || own.includes(column)) await tried
          else await assert.rejects(tried, { message: `permission denied for table ${table}` }, `${table}.${column}`)
        }
      }
    })
  }
  test(`PostgreSQL lets the ${role} delete rows of the tables of its own, and of no other`, async () => {
    for (const table of columns.keys()) {
      if (table === 'kysely_migration_lock') continue
      const rights = rightsOf(table, role)
      // `where false` reads no column, since the right to delete does not include reading.
      const tried = sql`delete from ${sql.table(table)} where false`.execute(database[role])
      if (rights.delete) await tried
      else await assert.rejects(tried, { message: `permission denied for table ${table}` })
    }
  })
}

test('the next migration corrects rights that were granted or revoked by hand', async () => {
  await using other = await freshDatabase()
  for (const change of [
    'grant update on api_keys to berth_cell',
    'grant select (email), references (id) on people to berth_cell',
    'revoke select on workspaces from berth_api',
    'grant update on workspaces to berth_cell',
    'revoke update (disk) on workspaces from berth_cell',
    'grant truncate on operations to berth_api',
  ]) {
    await sql.raw(change).execute(other.superuser)
  }
  await assert.rejects(other.api.selectFrom('workspaces').select('id').execute(), /permission denied/)
  await migrate(other.url)
  assert.deepEqual(grantChanges(await readRights((text) => sql.raw<Right>(text).execute(other.superuser))), [])
  await other.cell.updateTable('workspaces').set({ disk: null }).execute()
  await assert.rejects(other.cell.selectFrom('people').select('email').execute(), /permission denied/)
})

test('with separate logins, as the page for operators makes them, no process can take another role', async () => {
  await using database = await freshDatabase()
  const name = new URL(database.url.replace(':///', '://embedded/')).pathname.slice(1)
  const [owner, api, cell] = [`${name}_owner`, `${name}_api`, `${name}_cell`]
  const run = (text: string) => sql.raw(text).execute(database.superuser)
  const as = (login: string) => database.url.replace(/user=\w+/, `user=${login}`)
  await run(`create role ${owner} login createrole; grant berth_api, berth_cell to ${owner} with admin option`)
  await run(`create role ${api} login in role berth_api; create role ${cell} login in role berth_cell`)
  await run(`drop schema public cascade; create schema public authorization ${owner}; grant usage on schema public to public`)
  try {
    assert.ok((await migrate(as(owner))).length > 0)
    for (const [login, role, other] of [
      [api, 'berth_api', 'berth_cell'],
      [cell, 'berth_cell', 'berth_api'],
    ] as const) {
      const client = new pg.Client(connectionConfig({ url: as(login), role, connections_max: 1, application_name: 'berth-test' }))
      await client.connect()
      await client.query('select id from workspaces')
      for (const step of [`set role ${other}`, `set role ${owner}`])
        await assert.rejects(client.query(step), /permission denied to set role/)
      await client.query('reset role')
      await client.query('select id from workspaces') // allowed: the login has the rights of its role, and no others
      await assert.rejects(client.query('delete from organizations'), /permission denied/)
      await client.end()
    }
  } finally {
    await run(`drop owned by ${owner} cascade; drop role ${owner}, ${api}, ${cell}`)
  }
})
