// Needs its own installation: the tests kill its processes.
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { FAILPOINTS, type FailpointName } from '../../service/lib/failpoints.ts'
import { arm, openMarkers } from '../chaos/arm.ts'
import { VOLUME_POINTS, type Point } from '../chaos/points.ts'
import { havingTheirTurn } from '../chaos/rotation.ts'
import { createClient, type Answer, type Client, type OpenedWorkspace, type RequestOptions } from '../support/client.ts'
import { until } from '../support/processes.ts'
import { startService, type Service } from '../support/service.ts'

// A process is killed before each of these steps of a volume's life.
const own = (Object.keys(FAILPOINTS) as FailpointName[]).filter((name) => name.startsWith('volume_'))
const points: Point[] = havingTheirTurn([
  ...own.map((name): Point => ({ name, owner: FAILPOINTS[name].owner, kind: 'open' })),
  ...VOLUME_POINTS.map((name): Point => ({ name, owner: 'hostd', kind: 'open' })),
])
const markers = openMarkers()
const PATIENCE_MS = 120_000
const at = '/home/user/data'

let service: Service
let client: Client
let project: string
let workspace: OpenedWorkspace

before(async () => {
  process.stdout.write(`${points.map(({ name }) => name).join(', ')}\n`)
  service = await startService({ failpoints: markers.spec('kill'), settings: { slots: 1, shells: 1 } })
  client = createClient(service.base_url, service.api_key)
  project = (await client.api<{ api_key: { project_id: string } }>('/v1/me')).body.api_key.project_id
  workspace = await client.open('volumes', { caps: { memory_mib: 256, disk_gib: 1 } })
})
after(async () => {
  await service.stop()
  markers.close()
})

async function persist<T>(where: string, options: RequestOptions): Promise<Answer<T>> {
  let found: Answer<T> | undefined
  await until(`an answer of ${where}`, PATIENCE_MS, async () => {
    found = await client.api<T>(where, options).catch(() => undefined)
    return found !== undefined && found.status < 500
  })
  assert.ok(found)
  return found
}

interface Operation {
  id: string
  state: string
  error: unknown
}

let keys = 0
async function operate(where: string, options: RequestOptions): Promise<string> {
  const headers = { 'idempotency-key': `volumes-${(keys += 1)}` }
  const { status, body } = await persist<{ operation: Operation; volume?: { id: string } }>(where, { method: 'POST', ...options, headers })
  assert.equal(status, 202, JSON.stringify(body))
  let ended: Operation | undefined
  await until(`the end of ${where}`, PATIENCE_MS, async () => {
    ended = (await persist<Operation>(`/v1/operations/${body.operation.id}`, { headers: { prefer: 'wait=2' } })).body
    return ['succeeded', 'failed', 'canceled'].includes(ended.state)
  })
  assert.deepEqual([where, ended?.state, ended?.error], [where, 'succeeded', null])
  return body.volume?.id ?? ''
}

async function sh(script: string): Promise<string> {
  let printed = ''
  await until(`${script} has run`, PATIENCE_MS, async () => {
    try {
      const token = await client.token(workspace.id)
      printed = (await client.run({ ...workspace, token }, ['sh', '-c', script])).stdout
      return true
    } catch {
      return false // the gateway is being started again
    }
  })
  return printed
}

describe('a kill -9 before any step of a volume', () => {
  for (const point of points) {
    test(`${point.owner === 'hostd' ? 'hostd/' : ''}${point.name}: create, attach, detach and delete all come to their end`, async () => {
      const armed = await arm(service, markers, point, 'kill')
      const began = await sh('cat /proc/sys/kernel/random/boot_id; cat /tmp/began 2>/dev/null || (date +%s%N > /tmp/began; cat /tmp/began)')
      const volume_id = await operate(`/v1/projects/${project}/volumes`, { json: { name: point.name, quota_gib: 1 } })
      const { body } = await persist<{ data: { name: string }[] }>(`/v1/projects/${project}/volumes`, {})
      assert.deepEqual(
        body.data.map(({ name }) => name),
        [point.name],
      )
      await operate(`/v1/workspaces/${workspace.id}/volumes`, { json: { volume_id, mount_path: at } })
      assert.equal(await sh(`echo here > ${at}/file; cat ${at}/file`), 'here\n')
      await operate(`/v1/workspaces/${workspace.id}/volumes/${volume_id}`, { method: 'DELETE' })
      assert.equal(await sh(`ls -A ${at}`), '')
      await operate(`/v1/projects/${project}/volumes/${volume_id}`, { method: 'DELETE' })
      await until(`${point.name} is reached`, 30_000, () => armed.fired())
      await service.ready()
      assert.equal((await persist<{ state: string }>(`/v1/projects/${project}/volumes/${volume_id}`, {})).body.state, 'deleted')
      assert.deepEqual(readdirSync(path.join(service.pool_path(), 'volumes')), [])
      assert.equal(await sh('cat /proc/sys/kernel/random/boot_id; cat /tmp/began'), began, 'the machine has not noticed')
    })
  }
})
