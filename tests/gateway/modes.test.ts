import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { CELL_ROUTES } from '../../contract/routes/cell/all.ts'
import { type CellRoute, serves } from '../../contract/route.ts'
import type { WorkspaceEntry } from '../../service/cell/machines/table.ts'
import { type Bench, openBench, refusalOf } from './support/gateway.ts'

let bench: Bench
let machine: WorkspaceEntry
let token: string
before(async () => {
  bench = await openBench()
  machine = bench.life.entry
  const { superuser } = bench.database
  const tools = ['exec', 'files', 'pty', 'process', 'git', 'browser']
  await superuser.updateTable('api_keys').set({ tool_permissions: tools }).where('id', '=', bench.api_key_id).execute()
  token = await bench.token({ tools })
})
after(() => bench[Symbol.asyncDispose]())

const is = (change: Partial<WorkspaceEntry>) => bench.table.entries.set(bench.workspace_id, { ...machine, ...change })
const pathOf = ({ path }: CellRoute) => path.replace('/v1/workspaces/{workspace_id}', '').replaceAll(/\{\w+\}/g, '12345678')
const call = (route: CellRoute) => bench.call(route.method, pathOf(route), { token })
const FILE_FIRST = { mode: 'file_first', machine: null } as const

/** The first words of the refused paths of the specification (Cell, "File-first rules" 6). */
const REFUSED = ['exec', 'pty', 'processes', 'git', 'browser', 'changes', 'keepalive', 'idle']

test('a file-first workspace refuses machine calls in every state, and names mode and operation', async () => {
  const isRefused = ({ id, path }: CellRoute) => REFUSED.includes(path.split('/')[4] ?? '') || id === 'files.watch' // watches a machine
  const refused = CELL_ROUTES.filter((route) => isRefused(route) && route.id !== 'exec.start')
  assert.deepEqual(
    CELL_ROUTES.filter((route) => !serves(route, 'file_first')).map(({ id }) => id),
    refused.map(({ id }) => id),
  )
  const asked = bench.agent.seen.length
  for (const route of refused) {
    for (const observed_state of ['running', 'suspended', 'failed'] as const) {
      is({ ...FILE_FIRST, observed_state })
      const answer = await call(route)
      const { error } = (await answer.json()) as { error: Record<string, unknown> }
      assert.deepEqual([answer.status, error['code'], error['retryable']], [409, 'conflict', false], route.id)
      const operation = route.path.split('/')[4]
      assert.deepEqual(error['details'], { reason: 'not_supported_for_mode', mode: 'file_first', operation }, route.id)
    }
  }
  assert.deepEqual([bench.agent.seen.length, bench.table.touched.length, bench.table.held], [asked, 0, []])
})

test('an old epoch and another cell are refused before the mode', async () => {
  is({ ...FILE_FIRST, ownership_epoch: 4 })
  assert.equal(await refusalOf(await bench.call('GET', '/idle', { token })), '409 stale_epoch')
  is({ ...FILE_FIRST, here: false, cell_id: bench.workspace_id })
  assert.equal(await refusalOf(await bench.call('GET', '/idle', { token })), '409 conflict/stale_endpoint')
})

test('a hint for a file-first workspace returns resident', async () => {
  bench.waking.hint = () => assert.fail('a machine was to be woken')
  is(FILE_FIRST)
  const answer = await bench.call('POST', '/wake-hint', { token, json: {} })
  assert.deepEqual([answer.status, await answer.json()], [202, { residency: 'resident' }])
})

test('a workspace with a machine has no executions, and a file-first one has none under an unknown id', async () => {
  is({})
  assert.equal(await refusalOf(await bench.call('GET', '/executions/no', { token })), '409 conflict/not_supported_for_mode')
  is(FILE_FIRST)
  for (const id of ['abcdefgh', 'a.b_c:d-1', 'z'.repeat(128)])
    assert.equal(await refusalOf(await bench.call('GET', `/executions/${id}`, { token })), '404 not_found', id)
  for (const id of ['abcdefg', 'z'.repeat(129), '.abcdefgh', 'abcdefg%20', 'abcdefg%0A'])
    assert.equal(await refusalOf(await bench.call('GET', `/executions/${id}`, { token })), '400 bad_request', id)
})
