import assert from 'node:assert/strict'
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { START_REASONS } from '../../contract/errors.ts'
import { LIMITS } from '../../contract/limits.ts'
import type { Execution } from '../../contract/schemas/cell/execution.ts'
import { forgetResults } from '../../service/cell/filetree/executions/forget.ts'
import { encodeEntry, type StreamEntry } from '../../service/cell/filetree/executions/entries.ts'
import { boundedResults } from '../../service/cell/filetree/executions/results.ts'
import { HostFailure, type HostFailureCode } from '../../service/cell/host/hostd.ts'
import { armFailpoint } from '../../service/lib/failpoints.ts'
import { executionCalls } from './support/executions.ts'
import { type Bench, refusalOf } from './support/gateway.ts'
import { HOME, openTreeBench, revisionOf, sha, treeCalls } from './support/tree-calls.ts'

let bench: Bench
const { direct, fresh, start, find, run, playing } = executionCalls(() => bench)
const { write, stat } = treeCalls(() => bench)
before(async () => {
  bench = await openTreeBench()
  direct()
})
after(() => bench[Symbol.asyncDispose]())

const revision = async () => revisionOf(await stat(HOME))

async function fails(reason: string, retryable: boolean, body: object = {}): Promise<Execution> {
  const at = await revision()
  const execution_id = fresh()
  const failed = (await (await start({ execution_id, ...body })).json()) as Execution
  assert.deepEqual(
    [failed.state, failed.tree_revision, failed.error?.details.reason, failed.error?.retryable],
    ['failed', null, reason, retryable],
    JSON.stringify(failed),
  )
  assert.equal(((await (await find(execution_id)).json()) as Execution).error?.details.reason, reason)
  assert.equal(await revision(), at)
  assert.equal((await write(`${HOME}/free.txt`, execution_id)).status, 200, 'the tree is free again')
  return failed
}

function blobOf(text: string): string {
  const all = readdirSync(bench.trees_folder, { recursive: true, encoding: 'utf8' })
  const found = all.find((name) => path.basename(name) === sha(text))
  assert.ok(found, `there is no blob of ${text}`)
  return path.join(bench.trees_folder, found)
}

test('missing or corrupt content fails the execution that needs it, until it is written again', async () => {
  const text = 'the only content of its kind'
  await write(`${HOME}/content.txt`, text)
  const blob = blobOf(text)
  const bytes = readFileSync(blob)
  rmSync(blob)
  await fails('blob_missing', false)
  const wrong = Buffer.from(bytes)
  wrong.writeUInt8(wrong.readUInt8(3) ^ 4, 3)
  writeFileSync(blob, wrong)
  await fails('blob_corrupt', false)
  await write(`${HOME}/content.txt`, text)
  assert.equal((await run()).state, 'succeeded')
})

test('a tree that changed during an execution accepts nothing from it', async () => {
  const { database, workspace_id } = bench
  const at = await revision()
  const move = (by: number) =>
    database.superuser
      .updateTable('trees')
      .set((eb) => ({ revision: eb('revision', '+', by) }))
      .where('workspace_id', '=', workspace_id)
      .execute()
  using _play = playing((session, files) => {
    files.set('moved.txt', 'moved')
    session.exit(0)
  })
  const execution_id = fresh()
  {
    using _armed = armFailpoint('execution.E6', () => move(1).then(() => undefined))
    const moved = (await (await start({ execution_id })).json()) as Execution
    assert.deepEqual([moved.state, moved.error?.details.reason, moved.error?.retryable], ['failed', 'tree_moved', true])
  }
  await move(-1)
  assert.equal(await revision(), at)
})

test('each host failure of a start or of changes has its own reason', async () => {
  const said: [HostFailureCode, string, boolean][] = [
    ['layer_missing', 'layout_unsupported', false],
    ['start_failed', 'start_failed', true],
    ['disk_full', 'disk_full', false],
  ]
  for (const [code, reason, retryable] of said) {
    using _said = bench.machine_host.intercept('start', 'before', () => {
      throw new HostFailure(code, 'said so', { retryable: false })
    })
    await fails(reason, retryable)
  }
  const { treeChanges } = bench.machine_host
  try {
    for (const [why, reason] of [
      ['too_many_entries', 'too_many_changes'],
      ['too_large', 'disk_full'],
      ['name_not_utf8', 'invalid_name'],
      ['path_too_long', 'invalid_name'],
    ]) {
      // prettier-ignore
      const refused = encodeEntry({ path: 'f', type: 'refused', why } as StreamEntry)
      bench.machine_host.treeChanges = async () => (async function* () { yield Buffer.from(refused) })() // prettier-ignore
      await fails(reason ?? '', false)
    }
  } finally {
    bench.machine_host.treeChanges = treeChanges
  }
})

test('a result is kept for 7 days by any clock, and its id is free afterwards', async () => {
  const forget = () => forgetResults({ cell_id: bench.cell_id, db: bench.database.cell, clock: bench.clock, log: undefined as never })
  const days = (count: number) => (bench.clock.ahead_ms += count * 24 * 3600_000)
  const execution_id = fresh()
  {
    using _play = playing((session) => {
      days(-3) // still running
      session.exit(7)
    })
    const jumped = (await (await start({ execution_id })).json()) as Execution
    assert.deepEqual([jumped.state, jumped.exit_code], ['succeeded', 7])
  }
  await forget()
  const known = async () => (await bench.executions.find({ workspace_id: bench.workspace_id, execution_id }))?.exit_code
  assert.equal(await known(), 7)
  days(LIMITS.execution.kept_days - 0.1)
  await forget()
  assert.equal(await known(), 7)
  days(0.2)
  await forget()
  assert.equal(await known(), undefined)
  assert.equal(await refusalOf(await find(execution_id)), '404 not_found')
  assert.equal((await start({ execution_id })).status, 201)
  days(3 - LIMITS.execution.kept_days - 0.1)
})

test("the stored output of an organization's results is bounded; the oldest keep only their outcome", async () => {
  const results = boundedResults({ db: bench.database.cell, log: undefined as never }, { bytes_max: 250_000, step_bytes: 1 })
  using _play = playing((session) => {
    session.write('stdout', Buffer.alloc(100_000, 'x'))
    session.exit(3)
  })
  const ids: string[] = []
  for (let made = 0; made < 4; made++) ids.push((await run()).execution_id)
  const shown = async () => {
    const rows = await Promise.all(ids.map((execution_id) => bench.executions.find({ workspace_id: bench.workspace_id, execution_id })))
    return rows.map((row) => [row?.exit_code, row?.stdout.length, row?.stdout_truncated])
  }
  assert.deepEqual(new Set((await shown()).map(String)), new Set(['3,100000,false']))
  await results.note(bench.workspace_id, { stdout: Buffer.alloc(1), stderr: Buffer.alloc(0), changed: [] })
  const [whole, emptied] = [
    [3, 100_000, false],
    [3, 0, true],
  ]
  assert.deepEqual(await shown(), [emptied, emptied, whole, whole])
})

test('a plan that refuses starts refuses a command without a record, and its id runs afterwards', async () => {
  const { superuser } = bench.database
  const organization = (row: object) => superuser.updateTable('organizations').set(row).execute()
  const plan = (row: object) => superuser.updateTable('plans').set(row).execute()
  const done = fresh()
  await start({ execution_id: done })
  const execution_id = fresh()
  const refusal = async () => {
    const refused = await start({ execution_id })
    const { error } = (await refused.clone().json()) as { error: { details: { plan?: string } } }
    assert.equal(typeof error.details.plan, 'string')
    assert.equal((await start({ execution_id: done })).status, 200)
    assert.equal((await find(execution_id)).status, 404)
    return refusalOf(refused)
  }
  for (const reason of START_REASONS.entitlement_required.filter((each) => each !== 'limits_missing')) {
    await organization({ refuses_starts: reason })
    assert.equal(await refusal(), `402 entitlement_required/${reason}`)
  }
  await organization({ refuses_starts: null, payment_refuses_starts: 'payment_past_due' })
  assert.equal(await refusal(), '402 entitlement_required/payment_past_due')
  await organization({ payment_refuses_starts: null })
  await plan({ refuses_starts: 'unpaid' })
  assert.equal(await refusal(), '402 entitlement_required/unpaid')
  await plan({ refuses_starts: null, missing_limits: ['memory_mib'] })
  assert.equal(await refusal(), '402 entitlement_required/limits_missing')
  await plan({ missing_limits: [] })
  for (const reason of START_REASONS.allowance_exhausted) {
    await organization({ allowance_exhausted: reason })
    assert.equal(await refusal(), `402 allowance_exhausted/${reason}`)
  }
  await organization({ allowance_exhausted: null })
  assert.equal((await start({ execution_id })).status, 201)
})
