// Listed values are arguments of other commands of a real service.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { describedCommands } from '../../tools/reference/cli-page.ts'
import { personSeeds } from '../api/people-seeds.ts'
import { seeder, SETTINGS } from '../api/support.ts'
import { type CellWorld, worldWithCell } from '../api/with-cell.ts'
import { type Ran, runBerth, type RunOptions } from './served.ts'
import { patience } from '../support/patience.ts'

let w: CellWorld
let folder: string
let session: string
before(async () => {
  w = await worldWithCell()
  folder = mkdtempSync(path.join(tmpdir(), 'berth-lists-'))
  session = (await personSeeds(w.database.superuser, w.ids, w.clock.now()).person(w.a.organization_id, 'owner', { stepped_up: true })).token
  await seeder(w.database, w.clock, w.ids).template(w.a.organization_id, 'greeter', SETTINGS, true)
  await berth('templates draft open greeter')
})
after(async () => {
  await w[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true })
})

const berth = async (words: string, { env, ...options }: RunOptions = {}): Promise<Ran> => {
  const known = { BERTH_URL: w.base, BERTH_API_KEY: w.a.key, BERTH_CONFIG_DIR: folder }
  const ran = await runBerth(words.split(' '), { ...options, env: { ...known, ...env } })
  assert.equal(ran.code, 0, `berth ${words}: ${ran.stderr}`)
  return ran
}

interface Row {
  list: string
  make?: string
  shows: string
  /** Commands that accept the shown value in the place of X. */
  taken_by: string[]
  stdin?: string
  is_persons?: boolean
}
const LISTS: Row[] = [
  { list: 'list', make: 'open shown', shows: 'KEY', taken_by: ['show X', 'snapshot X'] },
  { list: 'list', shows: 'ID', taken_by: ['show X'] },
  { list: 'checkpoints shown', shows: 'ID', taken_by: ['restore shown X'] },
  { list: 'secrets list', make: 'secrets create TOKEN', shows: 'NAME', stdin: 'v', taken_by: ['secrets bind shown X', 'secrets rotate X'] },
  { list: 'secrets list', shows: 'ID', stdin: 'v', taken_by: ['secrets rotate X', 'secrets delete X'] },
  { list: 'volumes list', make: 'volumes create models 1', shows: 'NAME', taken_by: ['volumes attach X shown /mnt/models'] },
  { list: 'volumes list', shows: 'ID', taken_by: ['volumes detach X shown', 'volumes delete X'] },
  { list: 'templates list', shows: 'SLUG', taken_by: ['templates versions X', 'open of-slug --template X'] },
  { list: 'templates versions greeter', shows: 'VERSION', taken_by: ['templates test greeter X'] },
  {
    list: 'templates draft states greeter',
    make: 'templates draft capture greeter',
    shows: 'ID',
    taken_by: ['templates draft test greeter X'],
  },
  { list: 'templates draft instances greeter', shows: 'KEY', taken_by: ['show X'] },
  { list: 'keys list', make: 'keys create nightly', shows: 'ID', taken_by: ['keys revoke X'], is_persons: true },
  { list: 'profiles', make: 'login --profile work', shows: 'NAME', taken_by: ['me --profile X'] },
]
for (const { list, make, shows, taken_by, stdin = '', is_persons = false } of LISTS)
  test(`${shows} of berth ${list} is what ${taken_by.join(', ')} take`, { timeout: patience(60_000) }, async () => {
    const options = { stdin, ...(is_persons ? { env: { BERTH_API_KEY: session, BERTH_PROJECT: w.a.project_id } } : {}) }
    if (make !== undefined) await berth(make, options)
    const [head = '', row = ''] = (await berth(list, options)).stdout.split('\n')
    const at = head.split(/ {2,}/).indexOf(shows)
    const shown = row.split(/ {2,}/)[at]
    assert.ok(shown, head)
    for (const words of taken_by) await berth(words.replace('X', shown), options)
  })

const TAKEN_BY_NONE = ['egress denials', 'members', 'files list']
/** These lists need a machine: tests/acceptance/command-lists.test.ts. */
const OF_MACHINES = ['commands', 'terminals', 'ps']

test('every command that lists is in the table', () => {
  const lists = describedCommands().filter(({ does }) => does.startsWith('list '))
  const known = (name: string) =>
    [...TAKEN_BY_NONE, ...OF_MACHINES].includes(name) || LISTS.some(({ list }) => `${list} `.startsWith(`${name} `))
  assert.ok(lists.length > 10)
  assert.deepEqual(lists.map(({ name }) => name).filter((name) => !known(name)), []) // prettier-ignore
})
