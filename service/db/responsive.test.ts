import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import pg from 'pg'
import { freshDatabase, type TestDatabase } from '../../tests/support/postgres.ts'
import { isResponsive } from './responsive.ts'
import { connectionConfig } from './options.ts'

let database: TestDatabase
let client: pg.Client
before(async () => {
  database = await freshDatabase()
  client = new pg.Client(connectionConfig(database.options('berth_cell')))
  await client.connect()
})
after(async () => {
  await client.end()
  await database[Symbol.asyncDispose]()
})

function standStill(ms: number): void {
  const until = performance.now() + ms
  while (performance.now() < until);
}

test('an answer that arrived while this process stood still counts as in time', async () => {
  for (let round = 0; round < 5; round += 1) {
    const answered = isResponsive(client, 50)
    standStill(300)
    assert.equal(await answered, true)
  }
})

test('a silent server has not answered', async () => {
  const sleeping = client.query('select pg_sleep(0.5)')
  assert.equal(await isResponsive(client, 50), false)
  await sleeping
})

test('a lost connection does not answer', async () => {
  const lost = new pg.Client(connectionConfig(database.options('berth_cell')))
  await lost.connect()
  await lost.end()
  assert.equal(await isResponsive(lost, 1000), false)
})
