import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { after, before, test } from 'node:test'
import pino from 'pino'
import { sampleStorage } from '../../service/cell/metering/sampler.ts'
import { textFile } from '../support/trees.ts'
import { type CellWorld, worldWithCell } from './with-cell.ts'

let w: CellWorld
const ids = new Map<string, string>()
before(async () => {
  w = await worldWithCell({}, { file_first: true })
  // Made before a test sets the time forward, while the cell counts as alive.
  for (const key of ['metered', 'short', 'tree']) ids.set(key, await w.ready(key, { mode: 'file_first' }))
})
after(() => w[Symbol.asyncDispose]())

async function write(id: string, text: string): Promise<void> {
  using publication = w.trees.begin(id)
  const { entry, content } = textFile(text)
  await publication.put([content])
  await publication.publish((await w.trees.current(id))?.revision ?? 0, [{ kind: 'put', path: ['f'], entry }])
}

test('the files of the current revision are metered, and those of earlier revisions are not', async () => {
  const id = ids.get('metered') ?? ''
  await write(id, 'x'.repeat(5000))
  await write(id, 'x'.repeat(1000))
  const meter = () =>
    sampleStorage({ cell_id: w.cell_id, db: w.database.cell, clock: w.clock, host: w.host, log: pino({ level: 'silent' }) }, new Set())
  await meter()
  w.advance(60)
  await meter()
  const rows = await w.database.superuser.selectFrom('usage_samples').select('disk_byte_ms').where('workspace_id', '=', id).execute()
  const sum = rows.reduce((all, { disk_byte_ms }) => all + Number(disk_byte_ms), 0)
  assert.ok(sum >= 60_000 * 1000 && sum < 80_000 * 1000, String(sum))
})

test('a delete removes the files, revisions and keys, and calls no machine host', async () => {
  const id = ids.get('short') ?? ''
  await write(id, 'gone soon')
  assert.equal(existsSync(w.trees.folder(id)), true)
  const { body } = await w.call('DELETE', `/v1/workspaces/${id}`)
  assert.equal((await w.ended(body.id)).state, 'succeeded')
  const left = await w.database.superuser.selectFrom('trees').select('workspace_id').where('workspace_id', '=', id).execute()
  assert.deepEqual([existsSync(w.trees.folder(id)), left], [false, []])
  assert.equal((await w.get(`/v1/workspaces/${id}`)).body.observed_state, 'deleted')
})

test('the view has the revision of the tree; idleness and a used-up allowance do not suspend it', async () => {
  const id = ids.get('tree') ?? ''
  await write(id, 'one')
  await w.database.superuser
    .updateTable('organizations')
    .set({ allowance_exhausted: 'allowance_used' })
    .where('id', '=', w.a.organization_id)
    .execute()
  w.advance(7 * 24 * 3600)
  await w.look()
  await w.database.superuser.updateTable('organizations').set({ allowance_exhausted: null }).where('id', '=', w.a.organization_id).execute()
  const { body } = await w.get(`/v1/workspaces/${id}`)
  assert.deepEqual([body.tree_revision, body.observed_state, await w.operations(id)], [1, 'running', []])
})
