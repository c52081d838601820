import { createClient, type Client, type OpenedWorkspace } from '../support/client.ts'
import type { Service } from '../support/service.ts'
import { measure, timed } from './harness.ts'
import { filled, resumed } from './machines.ts'

const FORKS = 5
const CAPS_MIB = 512
const LARGE_MIB = 870

export async function forksRows(service: Service, only?: string): Promise<void> {
  const client = createClient(service.base_url, service.api_key)
  if (only !== 'large') await atOnceRow(service, client)
  if (only !== 'five') await largeRow(service, client)
}

async function atOnceRow(service: Service, client: Client): Promise<void> {
  const guest = { name: 'forks', title: '', memory_mib: CAPS_MIB, fill_mib: 128 }
  const source = await filled(client, guest, 'bench-forks')
  await measure(
    { row: 15, name: 'fork-five', title: `${FORKS} forks at once until all are ready, of one`, bar: { at_most: 1.5 } },
    { reference: () => forked(service, client, source, 1), subject: () => forked(service, client, source, FORKS) },
    { pairs: 5, samples_max: 1 },
  )
  await client.operate(`/v1/workspaces/${source.id}`, { method: 'DELETE' })
}

async function largeRow(service: Service, client: Client): Promise<void> {
  const guest = { name: 'large', title: '', memory_mib: 1536, fill_mib: LARGE_MIB }
  const source = await filled(client, guest, 'bench-fork-large')
  const reference = async () => {
    const suspend_ms = await timed(() => succeeded(client, `/v1/workspaces/${source.id}/suspend`))
    await service.slots_ready()
    return suspend_ms + (await timed(() => resumed(client, source)))
  }
  await measure(
    { row: 15, name: 'fork-large', title: `fork of ${LARGE_MIB} MiB until it is ready, of its suspend and resume`, bar: { at_most: 1.3 } },
    { reference, subject: () => forked(service, client, source, 1) },
    { pairs: 5, samples_max: 1 },
  )
  await client.operate(`/v1/workspaces/${source.id}`, { method: 'DELETE' })
}

let n = 0

async function forked(service: Service, client: Client, source: OpenedWorkspace, count: number): Promise<number> {
  await service.slots_ready()
  const keys = Array.from({ length: count }, () => `bench-forks-${n++}`)
  const ms = await timed(() => Promise.all(keys.map((key) => succeeded(client, `/v1/workspaces/${source.id}/fork`, { json: { key } }))))
  const opened = await Promise.all(keys.map((key) => client.open(key)))
  await Promise.all(opened.map(({ id }) => client.operate(`/v1/workspaces/${id}`, { method: 'DELETE' })))
  return ms
}

async function succeeded(client: Client, path: string, options: { json?: object } = {}): Promise<void> {
  const { state, error } = await client.operate(path, options)
  if (state !== 'succeeded') throw new Error(`${path} ${state}: ${error?.message ?? ''}`)
}
