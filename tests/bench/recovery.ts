import type { Client, OpenedWorkspace } from '../support/client.ts'
import { until } from '../support/processes.ts'
import type { ChildName, Service } from '../support/service.ts'
import { ailments } from '../chaos/check.ts'
import { printSeconds } from './harness.ts'
import { CROWDED_SETTINGS, SMALL_CAPS } from './settings.ts'
import { withService } from './with-service.ts'

const WORKSPACES = 20
const ROUNDS = 3
const LIMIT_MS = 120_000
const EVERYTHING: ChildName[] = ['supervisor', 'cell', 'api', 'hostd', 'postgres']

export async function recoveryRow(): Promise<void> {
  await withService(CROWDED_SETTINGS, async (service, client) => {
    const workspaces: OpenedWorkspace[] = []
    for (let n = 0; n < WORKSPACES; n++) {
      workspaces.push(await client.open(`bench-recovery-${n}`, SMALL_CAPS))
      await tagged(client, workspaces[n], n)
    }
    const rounds = []
    for (let round = 0; round < ROUNDS; round++) rounds.push(await killEverything(service, client, workspaces))
    printSeconds(
      'recovery-serving',
      `kill -9 of everything with ${WORKSPACES} running: until it serves`,
      rounds.map(({ serving }) => serving),
      5,
    )
    printSeconds('recovery-consistent', 'the same, until every machine answers and the doctor finds nothing', rounds.map(({ consistent }) => consistent), 15) // prettier-ignore
  })
}

async function tagged(client: Client, workspace: OpenedWorkspace | undefined, n: number): Promise<void> {
  if (workspace === undefined) return
  const { status } = await client.tool(workspace, '/files?path=/dev/shm/tag', { method: 'PUT', bytes: Buffer.from(String(n)) })
  if (status !== 200) throw new Error(`The write answered ${status}`)
}

async function killEverything(
  service: Service,
  client: Client,
  workspaces: OpenedWorkspace[],
): Promise<{ serving: number; consistent: number }> {
  for (const child of EVERYTHING) await service.kill9(child)
  const began_ms = performance.now()
  const started = service.ready() // as an operator's service manager does
  await until('it serves', LIMIT_MS, () => answers(client, workspaces, 0))
  const serving = performance.now() - began_ms
  for (const n of workspaces.keys()) await until(`machine ${n} answers`, LIMIT_MS, () => answers(client, workspaces, n))
  await until('the doctor finds nothing', LIMIT_MS, async () => (await ailments(service)).length === 0)
  const consistent = performance.now() - began_ms
  await started
  return { serving, consistent }
}

async function answers(client: Client, workspaces: OpenedWorkspace[], n: number): Promise<boolean> {
  const workspace = workspaces[n]
  if (workspace === undefined) return false
  const seen = await client.api<{ observed_state: string }>(`/v1/workspaces/${workspace.id}`).catch(() => null)
  if (seen?.status !== 200) return false
  if (seen.body.observed_state !== 'running') throw new Error(`${workspace.id} is ${seen.body.observed_state}`)
  const read = await client.tool(workspace, '/files?path=/dev/shm/tag').catch(() => null)
  if (read?.status === 200 && read.bytes.toString() !== String(n)) throw new Error(`${workspace.id} has the memory of another`)
  return read?.status === 200
}
