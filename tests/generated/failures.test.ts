import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from 'kysely'
import { declares, errorsOf } from '../../contract/route-errors.ts'
import { APP_ROUTES } from '../../contract/routes/app/all.ts'
import { seeder, world } from '../api/support.ts'
import { signalServer, startOwnServer } from '../support/postgres.ts'
import { ask, said } from './app-world.ts'

/** Without a payment service, payment.receive needs no database: tests/api/payment.test.ts. */
const ROUTES = APP_ROUTES.filter(({ id }) => id !== 'payment.receive')

// Own server: that of other tests must not stop.
const server = await startOwnServer()

test('every route that needs the database is 503 while the database stands still, and the others serve', async () => {
  await using w = await world()
  signalServer(server, 'SIGSTOP')
  try {
    const answers = await Promise.all(ROUTES.map(async (route) => [route.id, said(await ask(w, route))]))
    const expected = ROUTES.map((route) => [
      route.id,
      declares(errorsOf(route), 'dependency_unavailable', null) ? '503 dependency_unavailable' : '200',
    ])
    assert.deepEqual(answers, expected)
  } finally {
    signalServer(server, 'SIGCONT')
  }
})

test('an unexpected database is 500 without any detail of it, on every route that queries it', async () => {
  await using w = await world()
  // The key is new: for a used key, the process would use cached facts for a while.
  const { key } = await seeder(w.database, w.clock, w.ids).key(w.a.organization_id, w.a.project_id)
  for (const table of ['api_keys', 'signing_keys', 'people', 'email_tokens', 'mails']) {
    await sql`alter table ${sql.table(table)} rename to ${sql.table(`${table}_lost`)}`.execute(w.database.superuser)
  }
  for (const route of ROUTES.filter((each) => declares(errorsOf(each), 'dependency_unavailable', null))) {
    const answer = await ask(w, route, {}, { as: key })
    assert.deepEqual([route.id, said(answer), answer.body.error.retryable], [route.id, '500 internal_error', true])
    assert.doesNotMatch(JSON.stringify(answer.body), /api_keys|signing_keys|people|tokens|mails|relation/)
  }
})
