import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AT_ONCE_MS, createWorld, type World } from '../../../../tests/engine/world.ts'
import { until } from '../../../../tests/support/processes.ts'
import { createObservedPolicies } from './observed-policies.ts'

async function override(world: World, workspace_id: string, version: number, mode: 'deny_all' | 'allow_all'): Promise<void> {
  const { organization_id, project_id } = await world.db
    .selectFrom('workspaces')
    .select(['organization_id', 'project_id'])
    .where('id', '=', workspace_id)
    .executeTakeFirstOrThrow()
  const scope = { id: world.ids.next(), organization_id, project_id, workspace_id, version }
  const by = { created_by_type: 'user' as const, created_by_id: world.ids.next(), created_at: world.clock.now() }
  await world.db
    .insertInto('egress_versions')
    .values({ ...scope, mode, rules: '[]', cidrs: [], ...by })
    .execute()
}

const said = async (world: World, workspace_id: string) => {
  const row = await world.db.selectFrom('workspace_egress').selectAll().where('workspace_id', '=', workspace_id).executeTakeFirst()
  return row === undefined ? null : [row.epoch, row.revision, row.state]
}

test('a restarted cell applies policies that changed while it was away', async () => {
  await using world = await createWorld()
  const first = await world.startProcess()
  const { workspace_id, operation_id } = await world.open()
  await world.ended(operation_id)
  assert.deepEqual(await said(world, workspace_id), [1, 'default', 'enforced'])
  await first.kill()
  await override(world, workspace_id, 1, 'deny_all')
  assert.equal(world.host.egressOf(workspace_id), undefined)
  await world.startProcess()
  await until('it is in force', AT_ONCE_MS, () => world.host.egressOf(workspace_id)?.mode === 'deny_all')
  const revision = world.host.egressOf(workspace_id)?.revision
  await until('its row says so', AT_ONCE_MS, async () => (await said(world, workspace_id))?.[1] === revision)
})

test("a lost row is written again from the host's report, without setting the policy", async () => {
  await using world = await createWorld()
  const first = await world.startProcess()
  const { workspace_id, operation_id } = await world.open()
  await world.ended(operation_id)
  await override(world, workspace_id, 1, 'deny_all')
  await until('it is in force', AT_ONCE_MS, () => world.host.egressOf(workspace_id)?.mode === 'deny_all')
  await first.close()
  await world.db.deleteFrom('workspace_egress').execute()
  const sets = () => world.host.done.filter(({ verb }) => verb === 'setEgress').length
  const before = sets()
  await world.startProcess()
  await until('its row says so', AT_ONCE_MS, async () => (await said(world, workspace_id))?.[2] === 'enforced')
  assert.equal(sets(), before)
})

test('the book keeps the newest report on a machine, and drops machines that two inventories do not name', () => {
  const book = createObservedPolicies()
  const word = { workspace_id: 'a', epoch: 1, fence: 5, revision: 'new', state: 'enforced' as const }
  book.put(word)
  book.put({ ...word, fence: 4, revision: 'old' })
  assert.equal(book.get('a')?.revision, 'new')
  book.dropMissing(new Set())
  assert.equal(book.get('a')?.revision, 'new', 'it may have been started since the inventory')
  book.dropMissing(new Set(['a']))
  book.dropMissing(new Set())
  assert.equal(book.get('a')?.revision, 'new')
  book.dropMissing(new Set())
  assert.equal(book.get('a'), undefined)
})

test('`started` waits for all machines that are starting', async () => {
  const book = createObservedPolicies()
  const [one, other] = [book.starting('a'), book.starting('a')]
  let waited = false
  const started = book.started('a').then(() => (waited = true))
  one[Symbol.dispose]()
  await new Promise((resolve) => setImmediate(resolve))
  assert.equal(waited, false)
  other[Symbol.dispose]()
  await started
  assert.equal(waited, true)
})
