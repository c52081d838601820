import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { sql } from 'kysely'
import { freshDatabase, type TestDatabase } from '../../tests/support/postgres.ts'
import { type Db, openDatabase } from './database.ts'
import { queueLastStatement } from './last-statement.ts'

const INSERT = 'insert into kept (word) values ($1)'

async function words(database: TestDatabase): Promise<{ db: Db; kept(): Promise<string[]> } & AsyncDisposable> {
  const db = openDatabase({ ...database.options(null), connections_max: 1 })
  await sql`create table kept (word text primary key)`.execute(db)
  return {
    db,
    async kept() {
      const { rows } = await sql<{ word: string }>`select word from kept order by word`.execute(db)
      return rows.map(({ word }) => word)
    },
    [Symbol.asyncDispose]: () => db.destroy(),
  }
}

const say = (db: Db, word: string) => sql`insert into kept (word) values (${word})`.execute(db)

test('the last statement is committed with the rest of the transaction', async () => {
  await using database = await freshDatabase()
  await using w = await words(database)
  const result = await w.db.transaction().execute(async (tx) => {
    await say(tx, 'first')
    await queueLastStatement(tx, INSERT, ['last'])
    return 'the result'
  })
  assert.deepEqual([result, await w.kept()], ['the result', ['first', 'last']])
})

test('a failing last statement fails the transaction, and nothing is committed', async () => {
  await using database = await freshDatabase()
  await using w = await words(database)
  await say(w.db, 'taken')
  for (const [last, code] of [
    ['taken', '23505'],
    ['\u0000', '22021'],
  ] as const) {
    const failing = w.db.transaction().execute(async (tx) => {
      await say(tx, 'first')
      await queueLastStatement(tx, INSERT, [last])
    })
    await assert.rejects(failing, { code })
    assert.deepEqual(await w.kept(), ['taken'])
  }
  await w.db.transaction().execute((tx) => queueLastStatement(tx, INSERT, ['afterwards']))
  assert.deepEqual(await w.kept(), ['afterwards', 'taken'])
})

test('a failing commit discards the last statement', async () => {
  await using database = await freshDatabase()
  await using w = await words(database)
  await sql`create table later (word text references kept (word) deferrable initially deferred)`.execute(w.db)
  const failing = w.db.transaction().execute(async (tx) => {
    await sql`insert into later (word) values ('nobody')`.execute(tx)
    await queueLastStatement(tx, INSERT, ['last'])
  })
  await assert.rejects(failing, { code: '23503' })
  assert.deepEqual(await w.kept(), [])
})

test('an abandoned transaction never sends its last statement, and neither does the next one', async () => {
  await using database = await freshDatabase()
  await using w = await words(database)
  const failing = w.db.transaction().execute(async (tx) => {
    await queueLastStatement(tx, INSERT, ['never'])
    throw new Error('given up')
  })
  await assert.rejects(failing, /given up/)
  await w.db.transaction().execute((tx) => say(tx, 'next'))
  assert.deepEqual(await w.kept(), ['next'])
})

test('no statement may follow the last one', async () => {
  await using database = await freshDatabase()
  await using w = await words(database)
  const failing = w.db.transaction().execute(async (tx) => {
    await queueLastStatement(tx, INSERT, ['last'])
    await say(tx, 'behind')
  })
  await assert.rejects(failing, /behind the last one/)
  assert.deepEqual(await w.kept(), [])
})

test('the last statement and the commit take one round trip', async () => {
  await using database = await freshDatabase()
  await using wire = await relay(database.url)
  const db = openDatabase({ ...database.options(null), url: wire.url, connections_max: 1 })
  try {
    await sql`create table kept (word text primary key)`.execute(db)
    const plain = (n: number) => db.transaction().execute((tx) => say(tx, `plain ${n}`))
    const more = (n: number) =>
      db.transaction().execute(async (tx) => {
        await say(tx, `plain ${n}`)
        await queueLastStatement(tx, INSERT, [`last ${n}`])
      })
    await more(0) // the first call prepares the statements
    assert.deepEqual([await wire.tripsOf(() => plain(1)), await wire.tripsOf(() => more(2))], [3, 3])
  } finally {
    await db.destroy()
  }
})

async function relay(url: string): Promise<{ url: string; tripsOf(work: () => Promise<unknown>): Promise<number> } & AsyncDisposable> {
  const folder = mkdtempSync(join(tmpdir(), 'berth-relay-'))
  const behind = join(new URL(url).searchParams.get('host') ?? '', '.s.PGSQL.5432')
  let [trips, answered] = [0, true]
  const sockets: Socket[] = []
  const server = createServer((client) => {
    const upstream = connect(behind)
    sockets.push(client, upstream)
    client.on('data', (bytes) => {
      if (answered) trips += 1
      answered = false
      upstream.write(bytes)
    })
    upstream.on('data', (bytes) => {
      answered = true
      client.write(bytes)
    })
    for (const socket of [client, upstream]) socket.on('error', () => undefined)
    client.on('close', () => upstream.destroy())
    upstream.on('close', () => client.destroy())
  })
  await new Promise<void>((resolve) => server.listen(join(folder, '.s.PGSQL.5432'), resolve))
  const through = new URL(url)
  through.searchParams.set('host', folder)
  return {
    url: through.href,
    async tripsOf(work) {
      trips = 0
      await work()
      return trips
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
      rmSync(folder, { recursive: true })
    },
  }
}
