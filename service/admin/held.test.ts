import assert from 'node:assert/strict'
import { test } from 'node:test'
import { v7 } from 'uuid'
import { freshDatabase } from '../../tests/support/postgres.ts'
import { notifyConfirmed } from '../core/revocations/store.ts'
import { answerText, parseAsk } from '../core/revocations/messages.ts'
import { cellChannels, openListener } from '../db/listen.ts'
import { KEY_COMMANDS } from './keys.ts'
import { PERSON_COMMANDS } from './people.ts'
import { WORKSPACE_COMMANDS } from './workspaces.ts'
import { admin as adminOn } from '../../tests/support/admin.ts'

test('revoking commands are marked as such', () => {
  const commands = Object.entries({ ...KEY_COMMANDS, ...PERSON_COMMANDS, ...WORKSPACE_COMMANDS })
  const revoking = commands.flatMap(([name, { revokes }]) => (revokes === true ? [name] : []))
  assert.deepEqual(revoking, ['key revoke', 'key tools', 'person create', 'session revoke', 'workspace revoke-tokens'])
})

test('a revoking command ends after the cell has confirmed', async () => {
  await using database = await freshDatabase()
  const admin = (...args: string[]) => adminOn(database.url, ...args)
  await admin('organization', 'create', 'acme')
  await admin('project', 'create', 'main', '--organization', 'acme')
  const api_key = await admin('key', 'create', '--organization', 'acme', '--project', 'main', '--tools', 'exec', '--quiet')
  const [{ key_id = '' } = {}] = JSON.parse(await admin('key', 'list', '--json')) as { key_id?: string }[]
  assert.ok(api_key.includes(key_id))

  const db = database.superuser
  const cell_id = v7()
  const capacities = { capacity_cpu_millis: null, capacity_memory_mib: null, capacity_disk_gib: null }
  const times = { created_at: new Date(), seen_at: new Date() }
  await db
    .insertInto('cells')
    .values({ id: cell_id, name: 'here', endpoint: 'http://127.0.0.1:1', engine: null, ...capacities, ...times })
    .execute()
  const listener = await openListener(database.options('berth_cell'), cellChannels(cell_id))
  const asked = Promise.withResolvers<string>()
  const unheard = listener.on('berth_revocation', (text) => {
    if (text !== null) asked.resolve(text)
  })
  try {
    let ended = false
    const command = admin('key', 'revoke', key_id).finally(() => (ended = true))
    const ask = parseAsk(await asked.promise)
    assert.ok(ask)
    const { revoked_at } = await db.selectFrom('api_keys').select('revoked_at').where('key_id', '=', key_id).executeTakeFirstOrThrow()
    assert.ok(revoked_at)
    assert.equal(ended, false)
    await notifyConfirmed(db, answerText({ ...ask, by: `cell:${cell_id}` }))
    await command
  } finally {
    unheard()
    await listener.close()
  }
})
