import { LIMITS } from '../../contract/limits.ts'
import type { Client, OpenedWorkspace } from './client.ts'
import type { Service } from './service.ts'
import { patience } from './patience.ts'

/** Timeout when every past gap was too long to wait for. */
export const SHORTEST_TIMEOUT_SECONDS = LIMITS.idle.adaptive_seconds_min
const UNTIL_MS = 120_000

export interface IdleOperation {
  state: string
  created_at: string
  completed_at: string
  input: Record<string, unknown>
  error: { code: string } | null
}

export interface Idle {
  basis: string
  timeout_seconds: number
  idle_since: string | null
  awake: Record<string, unknown>[]
  suspend_at: string
  suspend_by: string
  failed_suspends: number
}

export async function withProcess(client: Client, key: string) {
  const workspace = await client.open(key)
  const detached = 'setsid sh -c "echo \\$\\$ > /dev/shm/pid; while :; do sleep 1; done" >/dev/null 2>&1 &'
  await client.run(workspace, ['sh', '-c', `${detached} until [ -s /dev/shm/pid ]; do sleep 0.05; done`])
  const alive = async (at: OpenedWorkspace) =>
    (await client.run(at, ['sh', '-c', 'kill -0 "$(cat /dev/shm/pid)" && cat /dev/shm/pid'])).stdout
  return { workspace, pid: await alive(workspace), alive }
}

export async function shortenTimeout(service: Pick<Service, 'query'>, workspace_id: string): Promise<void> {
  const gaps = [...Array.from({ length: 24 }, () => 0), 20]
  await service.query('update workspaces set idle_gaps = $2::real[] where id = $1', [workspace_id, gaps])
}

export async function idleOf(client: Client, workspace: OpenedWorkspace): Promise<Idle> {
  return (await client.tool<Idle>(workspace, '/idle')).body
}

/** Suspends come at the idle clock's ticks, every five seconds. */
export async function suspendsOf(client: Client, workspace_id: string, count: number): Promise<IdleOperation> {
  for (const end_ms = performance.now() + patience(UNTIL_MS); ;) {
    const { body } = await client.api<{ data: IdleOperation[] }>(`/v1/workspaces/${workspace_id}/operations?kind=suspend`)
    const [newest] = body.data
    if (body.data.length === count && newest?.completed_at) return newest
    if (body.data.length > count || performance.now() > end_ms)
      throw new Error(`${body.data.length} suspends of ${workspace_id}: ${JSON.stringify(newest)}`)
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
}
