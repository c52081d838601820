// A person at a shell uses the real service.
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { PASSWORD, personSeeds } from '../api/people-seeds.ts'
import { type CellWorld, worldWithCell } from '../api/with-cell.ts'
import { type Ran, runBerth } from './served.ts'

let w: CellWorld
let folder: string
let session: string
before(async () => {
  w = await worldWithCell()
  folder = mkdtempSync(path.join(tmpdir(), 'berth-step-up-'))
  session = (await personSeeds(w.database.superuser, w.ids, w.clock.now()).person(w.a.organization_id, 'owner')).token
})
after(async () => {
  await w[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true })
})

const berth = (words: string, env: Record<string, string> = {}, stdin = ''): Promise<Ran> =>
  runBerth(words.split(' '), { stdin, env: { BERTH_URL: w.base, BERTH_CONFIG_DIR: folder, ...env } })

test('a key is made after a new password check, in a profile and in the environment', { timeout: 120_000 }, async () => {
  const BERTH_PROJECT = w.a.project_id
  const refused = await berth('keys create nightly', { BERTH_API_KEY: session, BERTH_PROJECT })
  assert.deepEqual([refused.code, refused.stderr.includes('Try: berth step-up')], [1, true], refused.stderr)
  const wrong = await berth('step-up --password-stdin', { BERTH_API_KEY: session }, 'another password')
  assert.deepEqual([wrong.code, wrong.stdout], [1, ''])
  const given = await berth('step-up --password-stdin', { BERTH_API_KEY: session }, `${PASSWORD}\n`)
  assert.equal(given.code, 0, given.stderr)
  session = given.stdout.trim()
  assert.match(session, /^sfu_/)
  assert.equal((await berth('keys create nightly', { BERTH_API_KEY: session, BERTH_PROJECT })).code, 0)

  assert.equal((await berth('login', { BERTH_PROJECT }, session)).code, 0)
  const kept = await berth('step-up --password-stdin', {}, PASSWORD)
  assert.deepEqual([kept.code, kept.stdout], [0, ''], kept.stderr)
  const { default: profile } = JSON.parse(readFileSync(path.join(folder, 'profiles.json'), 'utf8')) as { default: { api_key: string } }
  assert.notEqual(profile.api_key, session)
  session = profile.api_key
  assert.equal((await berth('keys create hourly', { BERTH_PROJECT })).code, 0)
})

test('without a terminal the password is read from standard input, and only with --password-stdin', { timeout: 60_000 }, async () => {
  const asked = await berth('step-up', { BERTH_API_KEY: session }, PASSWORD)
  assert.deepEqual([asked.code, asked.stderr.includes('--password-stdin')], [2, true], asked.stderr)
  assert.equal((await berth('step-up --password-stdin', { BERTH_API_KEY: session }, '')).code, 2)
})

test('a session with several projects is told how to choose one', { timeout: 60_000 }, async () => {
  const now = w.clock.now()
  const id = w.ids.next()
  await w.database.superuser
    .insertInto('projects')
    .values({ id, organization_id: w.a.organization_id, name: 'second', slug: 'second', created_at: now })
    .execute()
  const unchosen = await berth('keys list', { BERTH_API_KEY: session })
  assert.equal(unchosen.code, 2, unchosen.stderr)
  assert.match(unchosen.stderr, /give --project ID, or set BERTH_PROJECT\. There are .*second/)
  assert.doesNotMatch(unchosen.stderr, /constructor/)
  assert.equal((await berth(`keys list --project ${w.a.project_id}`, { BERTH_API_KEY: session })).code, 0)
})
