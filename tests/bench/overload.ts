import type { Client } from '../support/client.ts'
import { printSeconds, timed } from './harness.ts'
import { CROWDED_SETTINGS, SMALL_CAPS } from './settings.ts'
import { withService } from './with-service.ts'

const GUESTS = 20
const CALLS_MS = 30_000
const PAUSE_MS = 20
const AGAIN_MS = 1000
const SUSPENDS = 5
const BOMB = ['bash', '-c', ':(){ :|:& };:']

export async function overloadRow(): Promise<void> {
  const controller = new AbortController()
  const work = async (client: Client) => {
    const { id } = await client.open('bench-neighbour', SMALL_CAPS)
    const keys = Array.from({ length: GUESTS }, (_, n) => `bench-bomb-${n}`)
    for (const key of keys) await client.open(key, SMALL_CAPS)
    const bombs = Promise.all(keys.map((key) => keepForking(client, key, controller.signal)))
    const calls = await callsFor(client, CALLS_MS, id)
    const suspends: number[] = []
    for (let n = 0; n < SUSPENDS; n++) suspends.push(await suspended(client, id))
    controller.abort()
    const opened = (await bombs).reduce((sum, times) => sum + times, 0)
    const p99 = calls.sort((a, b) => a - b)[Math.floor(calls.length * 0.99)] ?? Number.NaN
    console.log(`Bombs were started ${opened} times`)
    printSeconds('overload-api', `${GUESTS} guests that fork without end: p99 of ${calls.length} calls of the application API`, [p99], 0.25)
    printSeconds('overload-suspend', `the same: a suspend of a neighbour, ${SUSPENDS} times`, suspends, 10)
  }
  await withService(CROWDED_SETTINGS, (_service, client) => work(client).finally(() => controller.abort()))
}

async function keepForking(client: Client, key: string, signal: AbortSignal): Promise<number> {
  let times = 0
  const goesOn = () => !signal.aborted
  while (goesOn()) {
    const guest = await client.open(key, SMALL_CAPS).catch(() => null) // an open is slow while all processors are busy
    // A guest at its process limit may not answer the call.
    const started = guest && (await client.tool(guest, '/exec', { json: { argv: BOMB } }).catch(() => null))
    if (started?.status === 201) times += 1
    while (guest !== null && goesOn() && (await runs(client, guest.id))) await new Promise((resolve) => setTimeout(resolve, AGAIN_MS))
  }
  return times
}

async function runs(client: Client, id: string): Promise<boolean> {
  const seen = await client.api<{ observed_state: string }>(`/v1/workspaces/${id}`).catch(() => null) // the benchmark may be over
  return seen?.body.observed_state === 'running'
}

async function callsFor(client: Client, limit_ms: number, id: string): Promise<number[]> {
  const took: number[] = []
  const paths = [`/v1/workspaces/${id}`, '/v1/workspaces?limit=50']
  for (const end_ms = performance.now() + limit_ms; performance.now() < end_ms;) {
    for (const path of paths)
      took.push(
        await timed(async () => {
          const { status } = await client.api(path)
          if (status !== 200) throw new Error(`${path} answered ${status}`)
        }),
      )
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
  }
  return took
}

async function suspended(client: Client, id: string): Promise<number> {
  const ms = await timed(async () => {
    const { state, error } = await client.operate(`/v1/workspaces/${id}/suspend`)
    if (state !== 'succeeded') throw new Error(`The suspend ${state}: ${JSON.stringify(error)}`)
  })
  const { state, error } = await client.operate(`/v1/workspaces/${id}/resume`)
  if (state !== 'succeeded') throw new Error(`The resume ${state}: ${JSON.stringify(error)}`)
  return ms
}
