import { call, createClient, type Client } from '../support/client.ts'
import type { Service } from '../support/service.ts'
import { startChild } from './child.ts'
import { measure, timed } from './harness.ts'

// The reference is a bare Fastify in its own process: same queries, no checks or conventions.

const BATCH = 20

/** A single request is too short to time. */
const batch = (request: () => Promise<unknown>) => () =>
  timed(async () => {
    for (let n = 0; n < BATCH; n++) await request()
  })

export async function readRows(service: Service): Promise<void> {
  const client = createClient(service.base_url, service.api_key)
  const workspace = await client.open('bench-read')
  const operation_id = (await client.api<{ data: { id: string }[] }>(`/v1/workspaces/${workspace.id}/operations`)).body.data[0]?.id
  if (operation_id === undefined) throw new Error('the workspace has no operation')
  await using child = await startChild('bare-server.ts', service.database_url())
  const bare = child.told as { url: string }
  const headers = { authorization: `Bearer ${service.api_key}` }
  await measure(
    { row: 8, name: 'get-workspace', title: 'GET workspace, rate', bar: { at_least: 0.6 } },
    {
      reference: batch(() => call(`${bare.url}/workspaces/${workspace.id}`, { headers })),
      subject: batch(() => call(`${service.base_url}/v1/workspaces/${workspace.id}`, { headers })),
    },
    { rate: true },
  )
  await measure(
    { row: 8, name: 'get-operation', title: 'GET operation, rate', bar: { at_least: 0.6 } },
    {
      reference: batch(() => call(`${bare.url}/operations/${operation_id}`, { headers })),
      subject: batch(() => call(`${service.base_url}/v1/operations/${operation_id}`, { headers })),
    },
    { rate: true },
  )
  const open = { method: 'POST', json: { key: 'bench-read', template: 'base' }, headers }
  await measure(
    { row: 12, name: 'reopen', title: 'reopen a running key', bar: { at_most: 3 } },
    {
      reference: batch(() => call(`${bare.url}/reopen/${workspace.id}`, { ...open })),
      subject: batch(() => call(`${service.base_url}/v1/workspaces/open`, open)),
    },
  )
  await client.operate(`/v1/workspaces/${workspace.id}`, { method: 'DELETE' })
}

export async function heldRow(service: Service): Promise<void> {
  const client = createClient(service.base_url, service.api_key)
  const delays: number[] = []
  for (let n = 0; n < 20; n++) {
    const { body } = await client.api<{ workspace: { id: string }; operation: { id: string } }>('/v1/workspaces/open', {
      json: { key: `bench-held-${n}`, template: 'base' },
    })
    const end = await heldToItsEnd(client, body.operation.id)
    delays.push(end.answered_ms - Date.parse(end.completed_at))
    await client.operate(`/v1/workspaces/${body.workspace.id}`, { method: 'DELETE' })
  }
  delays.sort((a, b) => a - b)
  const at = (share: number) =>
    Math.round((delays[Math.min(delays.length - 1, Math.floor(delays.length * share))] ?? Number.NaN) * 100) / 100
  console.log(`20 held call returns after the operation ends: ${at(0.5)} ms (${at(0)}–${at(1)}), bar ≤ 10 ms`)
  console.log(
    JSON.stringify({
      row: 20,
      name: 'held',
      delay_ms: { median: at(0.5), min: at(0), max: at(1) },
      bar: { at_most_ms: 10 },
      reached: at(0.5) <= 10,
      samples: delays.length,
    }),
  )
}

/** Repeats a waiting read, which returns at each change of state, until the operation has ended. */
async function heldToItsEnd(client: Client, operation_id: string): Promise<{ answered_ms: number; completed_at: string }> {
  for (;;) {
    const { body } = await client.api<{ completed_at: string | null }>(`/v1/operations/${operation_id}`, { headers: { prefer: 'wait=20' } })
    const answered_ms = performance.timeOrigin + performance.now()
    if (body.completed_at !== null) return { answered_ms, completed_at: body.completed_at }
  }
}
