// Needs its own installation: the tests kill its processes.
import assert from 'node:assert/strict'
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { FAILPOINTS, type FailpointName } from '../../service/lib/failpoints.ts'
import { havingTheirTurn, rotation } from '../chaos/rotation.ts'
import { createClient, type Answer, type Client, type OpenedWorkspace, type RequestOptions } from '../support/client.ts'
import { assertCounts, startCounter } from '../support/counter.ts'
import { until } from '../support/processes.ts'
import { startService, type Service } from '../support/service.ts'

// A point fires if its marker file is missing, and then creates the file. A run takes some points of each kind, the long run all; `npm run
// failpoints` runs all in every mode.
const markers = mkdtempSync(path.join(tmpdir(), 'berth-failpoints-'))
chmodSync(markers, 0o777)
const marker = (name: string) => path.join(markers, name)
const points = (kind: string) => havingTheirTurn((Object.keys(FAILPOINTS) as FailpointName[]).filter((name) => name.startsWith(`${kind}.`)))
const everyPoint = ['open', 'suspend', 'resume', 'snapshot', 'reset', 'restore', 'adopt', 'fork', 'delete'].flatMap(points)

let service: Service
let client: Client

before(async () => {
  process.stdout.write(`BERTH_TEST_ROTATION=${rotation}: ${everyPoint.join(', ')}\n`)
  for (const name of everyPoint) writeFileSync(marker(name), '')
  service = await startService({
    failpoints: everyPoint.map((name) => `${name}:kill9@${marker(name)}`).join(','),
    settings: { slot_memory_mib: 512, slots: 1, shells: 1 },
  })
  client = createClient(service.base_url, service.api_key)
})
after(async () => {
  await service.stop()
  rmSync(markers, { recursive: true, force: true })
})

interface View {
  id: string
  observed_state: string
  active_operation: { id: string } | null
}
interface Operation {
  id: string
  state: string
  workspace_id: string
  result: Record<string, unknown> | null
}

const PATIENCE_MS = 180_000
async function seen<T>(what: string, look: () => Promise<T | null>): Promise<T> {
  const found: T[] = []
  await until(what, PATIENCE_MS, async () => {
    const it = await look()
    if (it !== null) found.push(it)
    return it !== null
  })
  return found[0] as T
}

/** Repeats with the same key until it is answered, as a careful client does. */
async function persist<T>(where: string, options: RequestOptions): Promise<Answer<T>> {
  return seen(`an answer of ${where}`, async () => {
    const answer = await client.api<T>(where, options).catch(() => null)
    return answer !== null && answer.status < 500 ? answer : null
  })
}

const ended = (id: string): Promise<Operation> =>
  seen(`the end of operation ${id}`, async () => {
    const { body } = await persist<Operation>(`/v1/operations/${id}`, { headers: { prefer: 'wait=5' } })
    return ['succeeded', 'failed', 'canceled'].includes(body.state) ? body : null
  })
const view = async (id: string) => (await persist<View>(`/v1/workspaces/${id}`, {})).body
const arm = (name: string) => rmSync(marker(name))
/** Waits, because some points come after the end of their operation. */
const fired = async (name: string) => {
  await until(`${name} is reached`, 60_000, () => existsSync(marker(name)))
  await service.ready()
}
let count = 0
const key = () => `point-${count++}`

async function opened(name: string, body: Record<string, unknown> = {}): Promise<OpenedWorkspace> {
  const request = { json: { key: name, template: 'base', caps: { memory_mib: 512 }, ...body }, headers: { prefer: 'wait=20' } }
  return seen(`${name} open`, async () => {
    const { status, body: answer } = await persist<{ workspace: View; cell_endpoint: string; tool_token: { token: string } | null }>(
      '/v1/workspaces/open',
      request,
    )
    if (status !== 200 || answer.tool_token === null) return null
    return { id: answer.workspace.id, endpoint: answer.cell_endpoint, token: answer.tool_token.token, operation_id: null }
  })
}

async function counts(workspace: OpenedWorkspace): Promise<void> {
  await until('its counter can be asked', PATIENCE_MS, async () => {
    try {
      await assertCounts(client, { ...workspace, token: await client.token(workspace.id) })
      return true
    } catch (error) {
      if (error instanceof assert.AssertionError) throw error
      return false // the gateway is being started again
    }
  })
  const machines = (await service.inventory()).machines.filter(({ subject }) => subject.id === workspace.id)
  assert.equal(machines.length, 1)
}

async function suspended(workspace: OpenedWorkspace): Promise<void> {
  await until('it is suspended', PATIENCE_MS, async () => {
    const now = await view(workspace.id)
    if (now.observed_state === 'suspended' && now.active_operation === null) return true
    if (now.active_operation !== null) await ended(now.active_operation.id)
    else await persist(`/v1/workspaces/${workspace.id}/suspend`, { method: 'POST' })
    return false
  })
}

describe('open', () => {
  for (const name of points('open')) {
    test(`kill -9 before ${name}: the repeat names the same operation and one machine runs`, async () => {
      const name_of_key = key()
      arm(name)
      const request = {
        json: { key: name_of_key, template: 'base', caps: { memory_mib: 512 } },
        headers: { 'idempotency-key': name_of_key },
      }
      const first = await persist<{ operation: Operation; workspace: View }>('/v1/workspaces/open', request)
      const repeat = await persist<{ operation: Operation; workspace: View }>('/v1/workspaces/open', request)
      assert.equal(repeat.body.workspace.id, first.body.workspace.id)
      assert.equal(repeat.body.operation.id, first.body.operation.id)
      await ended(first.body.operation.id)
      const workspace = await opened(name_of_key)
      await fired(name)
      await startCounter(client, workspace)
      await counts(workspace)
      await ended((await persist<Operation>(`/v1/workspaces/${workspace.id}`, { method: 'DELETE' })).body.id)
    })
  }
})

describe('suspend and resume', () => {
  let workspace: OpenedWorkspace
  before(async () => {
    workspace = await opened('suspended-and-resumed')
    await startCounter(client, workspace)
  })

  for (const name of points('suspend')) {
    test(`kill -9 before ${name}: the guest runs on or is suspended, never both`, async () => {
      arm(name)
      const { body } = await persist<Operation>(`/v1/workspaces/${workspace.id}/suspend`, {
        method: 'POST',
        headers: { 'idempotency-key': name },
      })
      const operation = await ended(body.id)
      await fired(name)
      const { observed_state } = await view(workspace.id)
      assert.equal(observed_state, operation.state === 'succeeded' ? 'suspended' : 'running')
      if (observed_state === 'suspended') {
        assert.deepEqual(
          (await service.inventory()).machines.filter(({ subject }) => subject.id === workspace.id),
          [],
        )
        workspace = await opened('suspended-and-resumed')
      }
      await counts(workspace)
    })
  }

  for (const name of points('resume')) {
    test(`kill -9 before ${name}: it stays suspended on its checkpoint or runs`, async () => {
      await suspended(workspace)
      arm(name)
      const { body } = await persist<{ operation: Operation }>(`/v1/workspaces/${workspace.id}/resume`, {
        method: 'POST',
        headers: { 'idempotency-key': name },
      })
      const operation = await ended(body.operation.id)
      await fired(name)
      assert.equal((await view(workspace.id)).observed_state, operation.state === 'succeeded' ? 'running' : 'suspended')
      workspace = await opened('suspended-and-resumed')
      await counts(workspace)
    })
  }

  for (const name of points('snapshot')) {
    test(`kill -9 before ${name}: the guest runs on, and its snapshot is there or is not`, async () => {
      arm(name)
      const { body } = await persist<Operation>(`/v1/workspaces/${workspace.id}/snapshot`, {
        method: 'POST',
        headers: { 'idempotency-key': name },
      })
      const operation = await ended(body.id)
      await fired(name)
      await counts(workspace)
      const list = (await persist<{ data: { id: string; operation_id: string }[] }>(`/v1/workspaces/${workspace.id}/checkpoints`, {})).body
      const made = list.data.filter(({ operation_id }) => operation_id === operation.id).map(({ id }) => id)
      assert.deepEqual(made, operation.state === 'succeeded' ? [operation.result?.['checkpoint_id']] : [])
    })
  }

  for (const name of [...points('reset'), ...points('restore')]) {
    test(`kill -9 before ${name}: the content is the old or the new, whole, and the old one can be brought back`, async () => {
      const replaced = await opened(key())
      await startCounter(client, replaced)
      const kind = name.slice(0, name.indexOf('.'))
      const before = await ended((await persist<Operation>(`/v1/workspaces/${replaced.id}/snapshot`, { method: 'POST' })).body.id)
      const json = kind === 'reset' ? { confirm_destructive: true } : { checkpoint_id: before.result?.['checkpoint_id'] }
      arm(name)
      const { body } = await persist<Operation>(`/v1/workspaces/${replaced.id}/${kind}`, { json, headers: { 'idempotency-key': name } })
      const operation = await ended(body.id)
      await fired(name)
      assert.equal(operation.state, 'succeeded')
      if (kind === 'restore') await counts(replaced)
      const checkpoint_id = operation.result?.['recovery_checkpoint_id']
      const back = await persist<Operation>(`/v1/workspaces/${replaced.id}/restore`, { json: { checkpoint_id } })
      assert.equal((await ended(back.body.id)).state, 'succeeded')
      await counts(replaced)
      await ended((await persist<Operation>(`/v1/workspaces/${replaced.id}`, { method: 'DELETE' })).body.id)
    })
  }

  for (const name of points('fork')) {
    test(`kill -9 before ${name}: the source runs on, the fork runs or can be opened`, async () => {
      const target = key()
      arm(name)
      const { body } = await persist<{ operation: Operation }>(`/v1/workspaces/${workspace.id}/fork`, {
        json: { key: target },
        headers: { 'idempotency-key': name },
      })
      const operation = await ended(body.operation.id)
      await fired(name)
      await counts(workspace)
      const child = await view(operation.workspace_id)
      if (operation.state === 'succeeded') assert.equal(child.observed_state, 'running')
      else assert.ok(['failed', 'deleted'].includes(child.observed_state), child.observed_state)
      if (child.observed_state !== 'deleted') {
        const forked = await opened(target)
        assert.equal(forked.id, child.id)
        await counts(forked)
        await ended((await persist<Operation>(`/v1/workspaces/${child.id}`, { method: 'DELETE' })).body.id)
      }
    })
  }
})

describe('adopt', () => {
  for (const name of points('adopt')) {
    test(`kill -9 before ${name}: the workspace goes on as its fork, and the fork is gone`, async () => {
      const workspace = await opened(key())
      await startCounter(client, workspace)
      const target = key()
      const forked = await persist<{ operation: Operation }>(`/v1/workspaces/${workspace.id}/fork`, { json: { key: target } })
      const { workspace_id: fork_workspace_id } = await ended(forked.body.operation.id)
      arm(name)
      const json = { fork_workspace_id, delete_fork: true }
      const { body } = await persist<Operation>(`/v1/workspaces/${workspace.id}/adopt`, { json, headers: { 'idempotency-key': name } })
      const operation = await ended(body.id)
      await fired(name)
      assert.equal(operation.state, 'succeeded')
      await counts(workspace)
      await seen('the end of the fork', async () => ((await view(fork_workspace_id)).observed_state === 'deleted' ? true : null))
      const checkpoint_id = operation.result?.['recovery_checkpoint_id']
      const back = await persist<Operation>(`/v1/workspaces/${workspace.id}/restore`, { json: { checkpoint_id } })
      assert.equal((await ended(back.body.id)).state, 'succeeded')
      await counts(workspace)
      await ended((await persist<Operation>(`/v1/workspaces/${workspace.id}`, { method: 'DELETE' })).body.id)
    })
  }
})

describe('delete', () => {
  for (const name of points('delete')) {
    test(`kill -9 before ${name}: the workspace is gone with everything it had`, async () => {
      const workspace = await opened(key())
      arm(name)
      const { body } = await persist<Operation>(`/v1/workspaces/${workspace.id}`, { method: 'DELETE' })
      assert.equal((await ended(body.id)).state, 'succeeded')
      await fired(name)
      const inventory = await service.inventory()
      assert.deepEqual(
        inventory.machines.filter(({ subject }) => subject.id === workspace.id),
        [],
      )
      assert.deepEqual(
        inventory.files.filter(({ subject }) => subject.id === workspace.id),
        [],
      )
    })
  }
})

test('every machine and every file on the host belongs to a live workspace', async () => {
  const inventory = await service.inventory()
  const { body } = await client.api<{ data: View[] }>('/v1/workspaces?limit=200')
  const live = new Set(body.data.map(({ id }) => id))
  assert.deepEqual(
    inventory.machines.map(({ subject }) => subject.id).filter((id) => !live.has(id)),
    [],
  )
  assert.deepEqual(
    inventory.files.map(({ subject }) => subject.id).filter((id) => !live.has(id)),
    [],
  )
})
