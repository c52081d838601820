import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import pg from 'pg'
import { createClient, type Client, type OpenedWorkspace } from '../support/client.ts'
import { fillFileSystem } from '../support/file-systems.ts'
import { startService, type Service } from '../support/service.ts'

// The adaptive policy on real machines. A history of gaps that are too long to wait for makes the timeout its shortest, ten seconds.

const TIMEOUT_SECONDS = 10
const LOOK_SECONDS = 5
const UNTIL_MS = 180_000
/** Less than the image of the smallest guest. */
const ROOM_FOR_RECORDS_ONLY = 12 << 20

interface Operation {
  state: string
  created_at: string
  completed_at: string
  input: Record<string, unknown>
  error: { code: string } | null
}
interface Idle {
  basis: string
  timeout_seconds: number
  idle_since: string | null
  awake: Record<string, unknown>[]
  suspend_at: string
  suspend_by: string
  failed_suspends: number
}

let service: Service
let client: Client
let database: pg.Client
before(async () => {
  service = await startService({ settings: { slots: 1, shells: 1 } })
  client = createClient(service.base_url, service.api_key)
  database = new pg.Client({ connectionString: service.database_url() })
  await database.connect()
})
after(async () => {
  await database.end()
  await service.stop()
})

/** A workspace with a process that nothing waits for. */
async function withProcess(key: string): Promise<OpenedWorkspace> {
  const workspace = await client.open(key)
  const detached = 'setsid sh -c "echo \\$\\$ > /dev/shm/pid; while :; do sleep 1; done" >/dev/null 2>&1 &'
  await client.run(workspace, ['sh', '-c', `${detached} until [ -s /dev/shm/pid ]; do sleep 0.05; done`])
  return workspace
}
/** From here on its timeout is the shortest. */
const giveHistory = ({ id }: OpenedWorkspace) =>
  database.query('update workspaces set idle_gaps = $2::real[] where id = $1', [id, [...Array.from({ length: 24 }, () => 0), 20]])
const alive = ['sh', '-c', 'kill -0 "$(cat /dev/shm/pid)" && cat /dev/shm/pid']
const idleOf = async (workspace: OpenedWorkspace) => (await client.tool<Idle>(workspace, '/idle')).body
const suspends = async (id: string) => (await client.api<{ data: Operation[] }>(`/v1/workspaces/${id}/operations?kind=suspend`)).body.data

/** The newest of so many suspends when it is over: begun by the service itself, whose clock looks every five seconds. */
async function suspended(id: string, count: number): Promise<Operation> {
  for (const end_ms = performance.now() + UNTIL_MS; ;) {
    const found = await suspends(id)
    const [newest] = found
    if (found.length === count && newest?.completed_at) return newest
    if (found.length > count || performance.now() > end_ms) throw new Error(`${found.length} suspends of ${id}: ${JSON.stringify(newest)}`)
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
}

test('a learned timeout suspends a workspace, so long after its last command has ended; a detached process does not keep it', async () => {
  const workspace = await withProcess('learned')
  await giveHistory(workspace)
  const pid = (await client.run(workspace, alive)).stdout
  await client.tool(workspace, '/exec', { json: { argv: ['sleep', '15'], session_id: 'long' } })
  const idle = await idleOf(workspace)
  const { body: session } = await client.tool<{ started_at: string }>(workspace, '/exec/long')
  const [command, ...others] = idle.awake.filter(({ kind }) => kind !== 'call') // the start itself may not be over yet
  assert.deepEqual([idle.basis, idle.timeout_seconds, idle.idle_since, others], ['learned', TIMEOUT_SECONDS, null, []])
  assert.deepEqual([command?.['kind'], command?.['session_id'], command?.['since']], ['command', 'long', session.started_at])
  const operation = await suspended(workspace.id, 1)
  assert.deepEqual([operation.state, operation.input], ['succeeded', { reason: 'idle_timeout' }])
  const again = await client.open('learned')
  const { body: ended } = await client.tool<{ ended_at: string }>(again, '/exec/long')
  const waited_seconds = (Date.parse(operation.created_at) - Date.parse(ended.ended_at)) / 1000
  assert.ok(waited_seconds >= TIMEOUT_SECONDS && waited_seconds < TIMEOUT_SECONDS + 6 * LOOK_SECONDS, `${waited_seconds} s`)
  assert.equal((await client.run(again, alive)).stdout, pid)
})

test('T110: a workspace that cannot be saved runs on with its processes, and waits longer after each failure', async () => {
  const workspace = await withProcess('unsaveable')
  const pid = (await client.run(workspace, alive)).stdout
  const filled = await fillFileSystem(service.pool_path(), ROOM_FOR_RECORDS_ONLY) // takes longer than the shortest timeout
  await giveHistory(workspace)
  const retryNow = () => database.query('update workspaces set idle_retry_at = active_at where id = $1', [workspace.id])
  const waits = async (operation: Operation) => {
    const token = await client.token(workspace.id)
    const { awake, failed_suspends, suspend_at, suspend_by } = await idleOf({ ...workspace, token })
    assert.deepEqual([operation.state, operation.error?.code, awake, suspend_by], ['failed', 'checkpoint_failed', [], 'policy'])
    return [failed_suspends, Math.round((Date.parse(suspend_at) - Date.parse(operation.completed_at)) / 1000)]
  }
  assert.deepEqual(await waits(await suspended(workspace.id, 1)), [1, 60])
  await new Promise((resolve) => setTimeout(resolve, 2.5 * LOOK_SECONDS * 1000)) // that nothing happens has no event
  assert.equal((await suspends(workspace.id)).length, 1)
  await retryNow()
  assert.deepEqual(await waits(await suspended(workspace.id, 2)), [2, 120])
  filled.free()
  await retryNow()
  assert.equal((await suspended(workspace.id, 3)).state, 'succeeded')
  const again = await client.open('unsaveable')
  assert.equal((await client.run(again, alive)).stdout, pid)
  assert.equal((await idleOf(again)).failed_suspends, 0)
})
