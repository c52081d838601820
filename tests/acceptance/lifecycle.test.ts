// Needs its own installation: the tests kill its processes.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Client, createClient, refusalOf } from '../support/client.ts'
import { startService, type Service } from '../support/service.ts'
import { patience } from '../support/patience.ts'

interface Operation {
  id: string
  kind: string
  state: string
  state_reason: string | null
  input: Record<string, unknown>
  error: { details: { deadline_at?: string } } | null
}
interface View {
  id: string
  observed_state: string
  desired_state: string
  ended_reason: string | null
  deleted_at: string | null
  pending_reason: string | null
  active_operation: Operation | null
  grants: { memory_mib: number } | null
}

let service: Service
let client: Client

before(async () => {
  // Exactly two machines of 512 MiB fit, each with 192 MiB of headroom.
  service = await startService({ settings: { capacity_memory_mib: 1500, slot_memory_mib: 512 } })
  client = createClient(service.base_url, service.api_key)
})
after(async () => {
  await service.stop()
})

const small = { caps: { memory_mib: 512 } }
const view = async (id: string) => (await client.api<View>(`/v1/workspaces/${id}`)).body
const until = async (id: string, seen: (workspace: View) => boolean): Promise<View> => {
  for (const deadline_ms = performance.now() + patience(120_000); performance.now() < deadline_ms;) {
    const workspace = await view(id)
    if (seen(workspace)) return workspace
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  throw new Error(`workspace ${id} did not come to it: ${JSON.stringify(await view(id))}`)
}

test('thirty opens of one new key share one workspace and one operation', async () => {
  const answers = await Promise.all(
    Array.from({ length: 30 }, () =>
      client.api<{ workspace: View; operation: Operation | null }>('/v1/workspaces/open', {
        json: { key: 'shared', template: 'base', ...small },
      }),
    ),
  )
  assert.deepEqual(new Set(answers.map(({ status }) => status).filter((status) => status !== 200 && status !== 202)), new Set())
  assert.equal(new Set(answers.map(({ body }) => body.workspace.id)).size, 1)
  assert.equal(new Set(answers.flatMap(({ body }) => (body.operation === null ? [] : [body.operation.id]))).size, 1)
  const opened = await client.open('shared', small)
  assert.equal((await view(opened.id)).grants?.memory_mib, 512)
  const { body } = await client.api<{ data: Operation[] }>(`/v1/workspaces/${opened.id}/operations`)
  assert.deepEqual(
    body.data.map(({ kind, state }) => [kind, state]),
    [['open', 'succeeded']],
  )
})

test('a client that disconnects in the middle of an open loses nothing', async () => {
  const controller = new AbortController()
  const left = client
    .api('/v1/workspaces/open', {
      json: { key: 'left', template: 'base', ...small },
      headers: { prefer: 'wait=20' },
      signal: controller.signal,
    })
    .catch(() => null)
  setTimeout(() => controller.abort(), 15)
  await left
  const opened = await client.open('left', small)
  assert.equal((await view(opened.id)).observed_state, 'running')
  await client.operate(`/v1/workspaces/${opened.id}`, { method: 'DELETE' })
})

test('lifecycle calls in a wrong state are refused with a reason', async () => {
  const { id } = await client.open('shared', small)
  const post = (path: string, json?: unknown) =>
    client.api(`/v1/workspaces/${id}${path}`, { method: 'POST', ...(json === undefined ? {} : { json }) })
  assert.deepEqual(refusalOf(await post('/resume')), [409, 'conflict', 'already_running'])
  assert.deepEqual(refusalOf(await post('/close')), [409, 'conflict', 'not_session'])
  assert.deepEqual(refusalOf(await post('/fork', { key: 'shared' })), [409, 'conflict', 'key_in_use'])
  assert.deepEqual(refusalOf(await post('/suspend-when-idle', { after_seconds: 29 })).slice(0, 2), [422, 'validation_failed'])
  const suspended = await client.operate(`/v1/workspaces/${id}/suspend`)
  assert.equal(suspended.state, 'succeeded')
  assert.deepEqual(refusalOf(await post('/suspend')), [409, 'conflict', 'not_running'])
  assert.deepEqual(refusalOf(await post('/suspend-when-idle', { after_seconds: 30 })), [409, 'conflict', 'not_running'])
})

test('a fork of a suspended workspace runs while its source stays suspended', async () => {
  const source = (
    await client.api<{ workspace: View }>('/v1/workspaces?key_prefix=shared').then(({ body }) => body as unknown as { data: View[] })
  ).data[0]
  assert.ok(source)
  const forked = await client.operate(`/v1/workspaces/${source.id}/fork`, { json: { key: 'from-suspended' } })
  assert.equal(forked.state, 'succeeded')
  const child = await client.open('from-suspended')
  assert.equal((await client.run(child, ['echo', 'here'])).stdout, 'here\n')
  assert.equal((await view(source.id)).observed_state, 'suspended')
  await client.operate(`/v1/workspaces/${child.id}`, { method: 'DELETE' })
})

test('an open without capacity waits as capacity_pending and runs when capacity is released', async () => {
  const first = await client.open('room-1', small)
  const second = await client.open('room-2', small)
  const { status, body } = await client.api<{ workspace: View; operation: Operation; tool_token: null }>('/v1/workspaces/open', {
    json: { key: 'room-3', template: 'base', ...small },
    headers: { prefer: 'wait=1' },
  })
  assert.equal(status, 202)
  const waiting = await until(body.workspace.id, ({ active_operation }) => active_operation?.state === 'capacity_pending')
  assert.equal(waiting.pending_reason, 'no_ready_host')
  assert.equal(waiting.active_operation?.state_reason, 'no_ready_host')
  assert.match(waiting.active_operation.error?.details.deadline_at ?? 'none', /^\d{4}-/)
  await client.operate(`/v1/workspaces/${first.id}`, { method: 'DELETE' })
  await until(body.workspace.id, ({ observed_state }) => observed_state === 'running')
  await Promise.all([second.id, body.workspace.id].map((id) => client.operate(`/v1/workspaces/${id}`, { method: 'DELETE' })))
})

test('a start that exceeds every host fails with invalid_resources', async () => {
  const { body } = await client.api<{ operation: Operation }>('/v1/workspaces/open', {
    json: { key: 'giant', template: 'base', caps: { memory_mib: 8192 } },
    headers: { prefer: 'wait=20' },
  })
  assert.equal(body.operation.state, 'failed')
  assert.equal((body.operation.error as unknown as { code: string }).code, 'invalid_resources')
})

test('a session is closed, not suspended, and its key opens a new workspace', async () => {
  const session = await client.open('session', { lifetime: 'session', ...small })
  const suspend = await client.api(`/v1/workspaces/${session.id}/suspend`, { method: 'POST' })
  assert.deepEqual(refusalOf(suspend), [409, 'conflict', 'session_lifetime'])
  const mismatch = await client.api('/v1/workspaces/open', { json: { key: 'session', template: 'base', lifetime: 'persistent' } })
  assert.deepEqual(refusalOf(mismatch), [409, 'conflict', 'lifetime_mismatch'])
  const closed = await client.operate(`/v1/workspaces/${session.id}/close`)
  assert.equal(closed.state, 'succeeded')
  assert.equal((await view(session.id)).ended_reason, 'closed')
  const next = await client.open('session', { lifetime: 'session', ...small })
  assert.notEqual(next.id, session.id)
  await client.operate(`/v1/workspaces/${next.id}`, { method: 'DELETE' })
})

test('a suspend-when-idle request is shown, can be withdrawn, and is removed by a tool call', async () => {
  const workspace = await client.open('idle', small)
  const request = () =>
    client.api<{ suspend_request: { after_seconds: number } }>(`/v1/workspaces/${workspace.id}/suspend-when-idle`, {
      json: { after_seconds: 30 },
    })
  const asked = await request()
  assert.deepEqual([asked.status, asked.body.suspend_request.after_seconds], [202, 30])
  const withdrawn = await client.api<{ idle: { suspend_request: unknown } }>(`/v1/workspaces/${workspace.id}/suspend-when-idle`, {
    method: 'DELETE',
  })
  assert.deepEqual([withdrawn.status, withdrawn.body.idle.suspend_request], [200, null])
  const shown = async () => {
    const { body } = await client.api<{ idle: { suspend_request: unknown } }>(`/v1/workspaces/${workspace.id}`)
    return body.idle.suspend_request
  }
  const { suspend_request } = (await request()).body
  await client.tool(workspace, '/keepalive', { json: { seconds: 0 } })
  await client.tool(workspace, '/wake-hint', { method: 'POST' })
  assert.deepEqual(await shown(), suspend_request)
  await client.tool(workspace, '/exec', { json: { argv: ['true'] } })
  assert.equal(await shown(), null)
  await client.operate(`/v1/workspaces/${workspace.id}`, { method: 'DELETE' })
})

for (const child of ['api', 'cell', 'hostd', 'supervisor'] as const) {
  test(`kill -9 of the ${child} harms no machine`, async () => {
    const workspace = await client.open('survivor', small)
    await client.tool(workspace, '/exec', { json: { session_id: `before-${child}`, argv: ['sleep', '300'] } })
    await service.kill9(child)
    await service.ready()
    const { status, body } = await client.tool<{ state: string }>(
      { ...workspace, token: await client.token(workspace.id) },
      `/exec/before-${child}`,
    )
    assert.deepEqual([status, body.state], [200, 'running'])
    const suspended = await client.operate(`/v1/workspaces/${workspace.id}/suspend`)
    assert.equal(suspended.state, 'succeeded')
  })
}
