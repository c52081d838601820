import { setTimeout } from 'node:timers/promises'
import type { Client } from '../support/client.ts'
import { measure, timed } from './harness.ts'
import { openPortGuest, type PortGuest } from './port-guest.ts'
import { CROWDED_SETTINGS, SMALL_CAPS } from './settings.ts'
import { withService } from './with-service.ts'

const SOCKETS = 200
const AT_ONCE = 20
const CALLS = 200
const PAUSE_MS = 10
const SETTLE_MS = 500

export async function portLoadRow(): Promise<void> {
  await withService(CROWDED_SETTINGS, async (_service, client) => {
    const guest = await openPortGuest(client, 'bench-port-load')
    const { id } = await client.open('bench-port-neighbour', SMALL_CAPS)
    const rates: number[] = []
    await measure(
      { row: 21, name: 'port-load', title: `GET workspace beside ${SOCKETS} WebSockets and a stream: p99`, bar: null },
      {
        reference: () => p99(client, id),
        async subject() {
          const load = await begin(guest)
          const ms = await p99(client, id).finally(() => load.end())
          rates.push(load.mib_per_second())
          return ms
        },
      },
      { samples_max: 1, pairs: 5 },
    )
    console.log(`the stream had ${rates.map((rate) => Math.round(rate)).join(', ')} MiB/s`)
  })
}

interface Load {
  mib_per_second(): number
  end(): void
}

async function begin(guest: PortGuest): Promise<Load> {
  const ends: (() => void)[] = []
  for (let i = 0; i < SOCKETS; i += AT_ONCE) ends.push(...(await Promise.all(Array.from({ length: AT_ONCE }, () => guest.talk()))))
  let bytes = 0
  ends.push(await guest.stream((more) => (bytes += more)))
  await setTimeout(SETTLE_MS)
  const begun = performance.now()
  bytes = 0
  let took_ms = 0
  return {
    mib_per_second: () => bytes / 2 ** 20 / (took_ms / 1000),
    end() {
      took_ms = performance.now() - begun
      for (const end of ends) end()
    },
  }
}

async function p99(client: Client, id: string): Promise<number> {
  const took: number[] = []
  for (let i = 0; i < CALLS; i++) {
    took.push(
      await timed(async () => {
        const { status } = await client.api(`/v1/workspaces/${id}`)
        if (status !== 200) throw new Error(`GET workspace answered ${status}`)
      }),
    )
    await setTimeout(PAUSE_MS)
  }
  return took.sort((a, b) => a - b)[Math.floor(CALLS * 0.99)] ?? Number.NaN
}
