import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { after, before, test } from 'node:test'
import pino from 'pino'
import { LIMITS } from '../../contract/limits.ts'
import { collectTree } from '../../service/cell/filetree/trees/collect.ts'
import { readPart } from '../../service/cell/filetree/trees/contents.ts'
import { removeOrphanTrees } from '../../service/cell/filetree/trees/orphans.ts'
import { findEntry } from '../../service/cell/filetree/trees/tree.ts'
import { textFile } from '../support/trees.ts'
import type { Answer } from './support.ts'
import { type CellWorld, worldWithCell } from './with-cell.ts'

let w: CellWorld
before(async () => {
  w = await worldWithCell({}, { file_first: true })
})
after(() => w[Symbol.asyncDispose]())

const open = (key: string) => w.ready(key, { mode: 'file_first' })
const fork = (id: string, body: object, options: object = {}) => w.post(`/v1/workspaces/${id}/tree/fork`, body, options)
const refusal = ({ status, body }: Answer) => [status, body.error.code, body.error.details?.reason]

async function write(id: string, name: string, text: string): Promise<void> {
  using publication = w.trees.begin(id)
  const { entry, content } = textFile(text)
  await publication.put([content])
  await publication.publish((await w.trees.current(id))?.revision ?? 0, [{ kind: 'put', path: [name], entry }])
}

async function read(id: string, name: string): Promise<string | null> {
  const at = await w.trees.current(id)
  const blobs = w.trees.blobs(id)
  const entry = at === null ? null : await findEntry({ blobs }, at.root, [name])
  return entry?.type === 'file' ? String(await readPart(blobs, entry, 0, entry.size)) : null
}

const context = () => ({
  cell_id: w.cell_id,
  db: w.database.cell,
  clock: w.clock,
  trees: w.trees,
  log: pino({ level: 'silent' }),
  quarantine_days: 7,
})
const remove = async (id: string) =>
  assert.equal((await w.ended((await w.call('DELETE', `/v1/workspaces/${id}`)).body.id)).state, 'succeeded')

test("a fork runs at once with its source's files, and later changes stay separate", async () => {
  const source = await open('source')
  await write(source, 'a', 'one')
  await write(source, 'a', 'two')
  const answer = await fork(source, { key: 'fork' })
  const { workspace } = answer.body
  assert.deepEqual(
    [answer.status, Object.keys(answer.body), workspace.key, workspace.mode, workspace.observed_state, workspace.tree_revision],
    [201, ['workspace'], 'fork', 'file_first', 'running', 0],
  )
  assert.equal(await read(workspace.id, 'a'), 'two')
  await write(workspace.id, 'a', 'of the fork')
  await write(source, 'a', 'of the source')
  assert.deepEqual([await read(workspace.id, 'a'), await read(source, 'a')], ['of the fork', 'of the source'])
  assert.equal((await w.get(`/v1/workspaces/${workspace.id}`)).body.tree_revision, 1)
  const reopened = await w.open('fork')
  assert.deepEqual([reopened.status, reopened.body.workspace.id], [200, workspace.id])
})

test('a kept revision can be forked, a removed one cannot, and an empty tree can', async () => {
  const source = await open('of-revisions')
  assert.equal(await read((await fork(source, { key: 'empty' })).body.workspace.id, 'a'), null)
  for (const text of ['one', 'two', 'three']) await write(source, 'a', text)
  const texts: (string | null)[] = []
  for (const tree_revision of [0, 1, 2, 3])
    texts.push(await read((await fork(source, { key: `at-${tree_revision}`, tree_revision })).body.workspace.id, 'a'))
  assert.deepEqual(texts, [null, 'one', 'two', 'three'])
  const missing = await fork(source, { key: 'at-4', tree_revision: 4 })
  assert.deepEqual([refusal(missing), missing.body.error.details], [[404, 'not_found', undefined], { tree_revision: 4 }])
  assert.deepEqual((await w.get('/v1/workspaces?key_prefix=at-4')).body.data, [])
})

test('a used key, a machine, a deleted workspace and a reserved key are refused; one Idempotency-Key makes one fork', async () => {
  const source = await open('refusing')
  assert.deepEqual(refusal(await fork(source, { key: 'refusing' })), [409, 'conflict', 'key_in_use'])
  assert.deepEqual(refusal(await fork(source, { key: 'sf:x' })), [422, 'validation_failed', 'reserved_key_prefix'])
  const machine = await w.ready('machine')
  const refused = await fork(machine, { key: 'of-machine' })
  assert.deepEqual(
    [refusal(refused), refused.body.error.details],
    [[409, 'conflict', 'not_supported_for_mode'], { reason: 'not_supported_for_mode', mode: 'processful', operation: 'fork_tree' }],
  )
  const headers = { 'idempotency-key': 'fork-tree-once' }
  const [first, second] = [await fork(source, { key: 'once' }, { headers }), await fork(source, { key: 'once' }, { headers })]
  assert.deepEqual([first.status, second.status, second.body], [201, 201, first.body])
  await remove(source)
  assert.deepEqual(refusal(await fork(source, { key: 'too-late' })), [409, 'conflict', 'workspace_deleted'])
  assert.equal(await read(first.body.workspace.id, 'a'), null)
})

test("deleting a fork or its source keeps the other's files; deleting the last one removes the store", async () => {
  for (const order of [
    [0, 1, 2],
    [2, 0, 1],
    [1, 2, 0],
  ]) {
    const source = await open(`family-${order.join('')}`)
    await write(source, 'a', 'shared')
    const child = (await fork(source, { key: `child-${order.join('')}` })).body.workspace.id as string
    await write(child, 'b', 'own')
    const grandchild = (await fork(child, { key: `grandchild-${order.join('')}` })).body.workspace.id as string
    const family = [source, child, grandchild]
    for (const [gone, each] of order.entries()) {
      await remove(family[each] ?? '')
      await removeOrphanTrees(context(), new AbortController().signal)
      for (const left of order.slice(gone + 1)) {
        assert.equal(await read(family[left] ?? '', 'a'), 'shared')
        assert.equal(await read(family[left] ?? '', 'b'), left === 0 ? null : 'own')
      }
      assert.equal(existsSync(w.trees.folder(source)), gone < 2)
    }
    assert.deepEqual(
      [child, grandchild].map((id) => existsSync(w.trees.folder(id))),
      [false, false],
    )
  }
})

test('garbage collection keeps the blobs that any fork names, and removes all others', async () => {
  const source = await open('collected')
  await write(source, 'a', 'only of the fork')
  const child = (await fork(source, { key: 'collected-child' })).body.workspace.id as string
  await write(source, 'a', 'only of the source')
  await write(child, 'b', 'of the fork as well')
  await write(child, 'b', 'later')
  w.advance(LIMITS.tree.revisions_kept_seconds_default + LIMITS.tree.blob_grace_seconds + 60)
  assert.ok((await collectTree(context(), source)) > 0)
  assert.deepEqual(
    [await read(source, 'a'), await read(child, 'a'), await read(child, 'b')],
    ['only of the source', 'only of the fork', 'later'],
  )
  assert.equal(await collectTree(context(), source), 0)
})
