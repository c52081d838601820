// Needs its own installation: the tests kill its processes.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Execution } from '../../contract/schemas/cell/execution.ts'
import { FAILPOINTS, type FailpointName } from '../../service/lib/failpoints.ts'
import { arm, openMarkers } from '../chaos/arm.ts'
import type { Point } from '../chaos/points.ts'
import { havingTheirTurn } from '../chaos/rotation.ts'
import { createClient, type Answer, type Client, type OpenedWorkspace, type RequestOptions } from '../support/client.ts'
import { until } from '../support/processes.ts'
import { startService, type Service } from '../support/service.ts'

// OF_HOSTD lists the points that an execution reaches. A run tests some points of each process, and the long run tests all.
const ofCell = (Object.keys(FAILPOINTS) as FailpointName[]).filter((name) => name.startsWith('execution.'))
const OF_HOSTD = [
  ...['tree_apply.files', 'tree_apply.record', 'start.disk', 'start.slot', 'start.mount', 'start.claim', 'start.commit', 'start.answer'],
  ...['connect.network', 'stop.kill', 'stop.unmount', 'stop.answer'],
]
const points: Point[] = [
  ...havingTheirTurn(ofCell).map((name): Point => ({ name, owner: 'cell', kind: 'open' })),
  ...havingTheirTurn(OF_HOSTD).map((name): Point => ({ name, owner: 'hostd', kind: 'open' })),
]
const markers = openMarkers()
const PATIENCE_MS = 120_000

let service: Service
let client: Client
let workspace: OpenedWorkspace
before(async () => {
  process.stdout.write(`${points.map(({ name }) => name).join(', ')}\n`)
  service = await startService({ failpoints: markers.spec('kill'), settings: { slot_memory_mib: 256, slots: 1, shells: 1 } })
  client = createClient(service.base_url, service.api_key)
  workspace = await client.open('executions', { mode: 'file_first', caps: { memory_mib: 256, disk_gib: 1 } })
})
after(async () => {
  await service.stop()
  markers.close()
})

async function persist<T>(where: string, options: RequestOptions = {}): Promise<Answer<T>> {
  let found: Answer<T> | undefined
  await until(`an answer of ${where}`, PATIENCE_MS, async () => {
    found = await client.tool<T>(workspace, where, options).catch(() => undefined)
    return found !== undefined && found.status < 500
  })
  assert.ok(found)
  return found
}

const request = (id: string) => ({ json: { execution_id: id, argv: ['sh', '-c', `echo ${id} >> log; echo ${id}`] } })

/** @returns null: the id is unknown */
async function outcome(id: string): Promise<Execution | null> {
  let found: Execution | null = null
  await until(`the end of ${id}`, PATIENCE_MS, async () => {
    const { status, body } = await persist<Execution>(`/executions/${id}`)
    if (status === 404) return true
    found = body
    return status === 200
  })
  return found
}

const logged = async () => (await persist(`/files?path=/home/user/log`)).bytes.toString().trim().split('\n')
const revision = async () => Number((await persist(`/files/stat?path=/home/user`)).headers['x-tree-revision'])
let count = 0
const fresh = (name: string) => `execution-${name.replaceAll(/[._]/g, '-')}-${(count += 1)}`

/** Changes the tree, so that the host must update its copy. */
async function change(): Promise<void> {
  const { status } = await persist(`/files?path=/home/user/changed`, { method: 'PUT', bytes: Buffer.from(fresh('changed')) })
  assert.equal(status, 200)
}

async function whole(id: string, base: number): Promise<Execution> {
  const first = (await outcome(id)) ?? (await persist<Execution>('/exec', request(id))).body
  const settled = await revision()
  const again = await persist<Execution>('/exec', request(id))
  assert.equal(again.status, 200, JSON.stringify(again.body))
  const { state, error, tree_revision, stdout } = again.body
  assert.deepEqual([state, error, tree_revision, stdout], [first.state, first.error, first.tree_revision, first.stdout])
  const is_published = state === 'succeeded'
  assert.equal(settled, base + (is_published ? 1 : 0))
  assert.equal(tree_revision, is_published ? settled : null)
  assert.equal((await logged()).filter((line) => line === id).length, is_published ? 1 : 0)
  assert.equal(await revision(), settled, 'the repeat has published nothing')
  const next = await persist<Execution>('/exec', request(fresh('next')))
  assert.deepEqual([next.body.state, next.body.tree_revision], ['succeeded', settled + 1], JSON.stringify(next.body))
  return again.body
}

describe('a kill -9', () => {
  for (const point of points) {
    const where = point.owner === 'cell' ? FAILPOINTS[point.name as FailpointName].before : point.name
    test(`of ${point.owner} at ${where}: the id has one outcome, and its changes are there once or not at all`, async () => {
      await persist<Execution>('/exec', request(fresh('first')))
      await change()
      const base = await revision()
      const armed = await arm(service, markers, point, 'kill')
      const id = fresh(point.name)
      const asked = client.tool<Execution>(workspace, '/exec', request(id)).catch(() => null)
      await until(`${point.name} is reached`, PATIENCE_MS, () => armed.fired())
      await service.ready()
      await asked
      const { state, error } = await whole(id, base)
      if (point.owner === 'hostd') return // the cell repeats its request, or the execution names the reason
      const is_whole = point.name === 'execution.E1' || point.name === 'execution.E7'
      assert.deepEqual([state, error?.details.reason], is_whole ? ['succeeded', undefined] : ['lost', 'host_restarted'])
    })
  }

  test('leaves no machine of an execution behind', async () => {
    const ofExecutions = async () => (await service.inventory()).machines.filter(({ subject }) => subject.kind === 'execution')
    await until('none is left', PATIENCE_MS, async () => (await ofExecutions()).length === 0)
  })
})
