import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { LIMITS } from '../../contract/limits.ts'
import { deleteExpired } from '../../service/api/forget.ts'
import { refusal } from './auth-support.ts'
import { seeder, world, type World } from './support.ts'
import { admin } from '../support/admin.ts'

let w: World
before(async () => {
  w = await world()
})
after(() => w[Symbol.asyncDispose]())

const seeds = () => seeder(w.database, w.clock, w.ids)
const send = (message: string, as = w.a.key, more: object = {}) => w.post('/v1/feedback', { message, ...more }, { as })
const kept = (id: string) => w.database.superuser.selectFrom('feedback').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
const newKey = async (tools?: []) => (await seeds().key(w.a.organization_id, w.a.project_id, tools)).key

test('a key and a person can send feedback, and its secrets are stored nowhere', async () => {
  const secret = `sfk_0123456789abcdef_${'a1'.repeat(32)}`
  const pem = '-----BEGIN PRIVATE KEY-----\nMIIEvQIBADAN\n-----END PRIVATE KEY-----'
  const message = `With ${secret} it says\n${pem}\nand nothing else`
  const sent = await send(message, await newKey([]), {
    category: 'bug',
    context: { command: `curl -H "Authorization: Bearer ${secret}"`, agent: 'one' },
  })
  assert.equal(sent.status, 201)
  const { id, received_at, duplicate, ...others } = sent.body
  assert.deepEqual([duplicate, others, Math.abs(Date.parse(received_at) - Date.now()) < 60_000], [false, {}, true])
  const row = await kept(id)
  assert.deepEqual(
    [row.category, row.message, row.context['agent']],
    ['bug', 'With [redacted] it says\n[redacted]\nand nothing else', 'one'],
  )
  assert.doesNotMatch(JSON.stringify(row), /sfk_|MIIE/)
  const person = await seeds().person(w.a.organization_id, 'billing')
  const said = await send('A person says this', person.token)
  assert.deepEqual([said.status, (await kept(said.body.id)).category], [201, 'other'])
  const records = await w.database.superuser.selectFrom('audit_events').selectAll().where('subject_id', 'in', [id, said.body.id]).execute()
  assert.deepEqual(records.map(({ action, details }) => [action, details]), [['feedback.create', {}], ['feedback.create', {}]]) // prettier-ignore
})

test('a repeated message of the same key is a duplicate for 24 hours, and of another key it is new', async () => {
  const [one, other] = [await newKey(), await newKey()]
  const first = await send('Twice', one)
  const second = await send('Twice', one, { category: 'idea' })
  assert.deepEqual(second.body, { ...first.body, duplicate: true })
  assert.equal((await send('Twice', other)).body.duplicate, false)
  w.clock.ahead_ms += 24 * 3600 * 1000 + 1000
  const later = await send('Twice', one)
  assert.deepEqual([later.body.duplicate, later.body.id === first.body.id], [false, false])
})

test('a key may send ten messages in ten minutes and fifty a day, concurrent ones and duplicates included', async () => {
  const key = await newKey()
  const { per_10_minutes, per_day } = LIMITS.feedback
  const at_once = await Promise.all(Array.from({ length: per_10_minutes + 5 }, (_, n) => send(`of ${n % 3}`, key)))
  assert.equal(at_once.filter(({ status }) => status === 201).length, per_10_minutes)
  const refused = at_once.find(({ status }) => status === 429)
  assert.ok(refused)
  assert.deepEqual(refusal(refused), [429, 'rate_limited'])
  const seconds = refused.body.error.details.retry_after_seconds
  assert.ok(seconds > 500 && seconds <= 600 && refused.headers.get('retry-after') === String(seconds), String(seconds))
  for (let turn = 1; turn < per_day / per_10_minutes; turn++) {
    w.clock.ahead_ms += 601_000
    for (let n = 0; n < per_10_minutes; n++) assert.equal((await send(`again ${turn} ${n}`, key)).status, 201)
  }
  w.clock.ahead_ms += 601_000
  const { body } = await send('one more', key)
  assert.ok(body.error.details.retry_after_seconds > 3600)
  assert.equal((await send('of another key', await newKey())).status, 201)
})

test('an organization may send two hundred messages a day, over all of its members and keys', async () => {
  const organization = await seeds().tenant('talkative', await seeds().plan('talkative'))
  const { organization_id, project_id } = organization
  let sent = 0
  while (sent < LIMITS.feedback.per_organization_and_day) {
    const { key } = await seeds().key(organization_id, project_id)
    const answers = await Promise.all(Array.from({ length: 10 }, (_, n) => send(`of ${sent + n}`, key)))
    sent += answers.filter(({ status }) => status === 201).length
  }
  assert.equal(sent, LIMITS.feedback.per_organization_and_day)
  assert.equal((await send('one more', organization.key)).status, 429)
  assert.equal((await send('one more', (await seeds().person(organization_id, 'owner')).token)).status, 429)
  assert.equal((await send('of others', w.b.key)).status, 201)
})

test('a message that is empty, too long or not text is refused, and so is an unknown kind', async () => {
  const key = await newKey()
  for (const body of [{}, { message: '' }, { message: 'a'.repeat(8001) }, { message: 'a\u0000b' }, { message: 'a', category: 'rant' }, { message: 'a', context: { other: 'b' } }, { message: 'a', more: 1 }]) {
    assert.deepEqual(refusal(await w.post('/v1/feedback', body, { as: key })), [422, 'validation_failed'])
  } // prettier-ignore
  assert.equal((await send('😀'.repeat(8000), key)).status, 201)
})

test('an operator reads feedback line by line with escaped control characters, and it expires', async () => {
  const { body } = await send('clear \u001b[2J the \u009b2J screen', await newKey())
  const stdout = await admin(w.database.url, 'feedback', 'list', '--days', '400')
  assert.ok(!stdout.includes('\u001b') && !stdout.includes('\u009b'))
  const rows = stdout.trim().split('\n').map((line) => JSON.parse(line) as { id: string; message: string }) // prettier-ignore
  assert.equal(rows.find(({ id }) => id === body.id)?.message, 'clear \u001b[2J the \u009b2J screen')
  await deleteExpired(w.database.api, new Date(w.clock.now().getTime() + 500 * 24 * 3600 * 1000))
  assert.deepEqual(await w.database.superuser.selectFrom('feedback').select('id').execute(), [])
})

test('the api cannot read feedback, and the cell has no access to it', async () => {
  await assert.rejects(w.database.api.selectFrom('feedback').select('message').execute(), { code: '42501' })
  await assert.rejects(w.database.cell.selectFrom('feedback').select('id').execute(), { code: '42501' })
})
