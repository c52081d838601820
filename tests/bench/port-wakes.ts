import { mkdirSync } from 'node:fs'
import path from 'node:path'
import type { Client } from '../support/client.ts'
import { until } from '../support/processes.ts'
import type { Service } from '../support/service.ts'
import { measure, timed } from './harness.ts'
import { withRaw } from './machines.ts'
import { openPortGuest } from './port-guest.ts'
import { withService } from './with-service.ts'

const PARK_MS = 60_000
const VISITS = 20
const FROZEN_MS_MAX = 3
const ONCE = { samples_max: 1, pairs: 9 }
const PYTHON = ['python3', '-c', 'import base64, hashlib, http.server, time\nopen("/tmp/ready", "w").close()\ntime.sleep(1e6)']

export async function portWakeRows(only?: string): Promise<void> {
  const rows: Record<string, [object, (service: Service, client: Client) => Promise<void>]> = {
    frozen: [{ freeze_after_seconds: 1, hibernate_after_seconds: 0 }, frozenRow],
    hibernated: [{ freeze_after_seconds: 1, hibernate_after_seconds: 2 }, hibernatedRow],
    suspended: [{}, suspendedRow],
  }
  for (const [name, [settings, row]] of Object.entries(rows)) {
    if (only === undefined || only === name) await withService({ ...settings, slot_memory_mib: 512 }, row)
  }
}

/** The limit is the first request's extra time over the next ones, in milliseconds. */
async function frozenRow(service: Service, client: Client): Promise<void> {
  const guest = await openPortGuest(client, 'bench-port-frozen')
  const state = async () => (await service.inventory()).machines.find((one) => one.subject.id === guest.workspace.id)?.state
  const more: number[] = []
  for (let turn = 0; turn < VISITS; turn++) {
    await until('it is frozen', PARK_MS, async () => (await state()) === 'frozen')
    const first = await timed(guest.visit)
    const next: number[] = []
    for (let i = 0; i < VISITS; i++) next.push(await timed(guest.visit))
    more.push(first - (next.sort((a, b) => a - b)[VISITS / 2] ?? 0))
  }
  more.sort((a, b) => a - b)
  const [min = 0, median = 0, max = 0] = [more[0], more[VISITS / 2], more.at(-1)].map((ms) => Math.round((ms ?? 0) * 10) / 10)
  console.log(`21 first request to a frozen machine, beyond the next ones: ${median} ms (${min}–${max}), bar ≤ ${FROZEN_MS_MAX} ms`)
  console.log(JSON.stringify({ row: 21, name: 'port-frozen', median, min, max, reached: median <= FROZEN_MS_MAX }))
}

async function hibernatedRow(service: Service, client: Client): Promise<void> {
  const guest = await openPortGuest(client, 'bench-port-hibernated')
  await withRaw(service, async (raw) => {
    const image = path.join(raw.directory, 'image')
    mkdirSync(image)
    await raw.runsc('run', '--detach', '--bundle', raw.bundle(PYTHON), 'origin')
    await raw.runsc('exec', 'origin', '/bin/sh', '-c', 'until [ -e /tmp/ready ]; do sleep 0.1; done')
    await raw.runsc('checkpoint', '--image-path', image, 'origin')
    await raw.runsc('delete', '--force', 'origin')
    const hasMachine = async () => (await service.inventory()).machines.some((one) => one.subject.id === guest.workspace.id)
    let count = 0
    await measure(
      { row: 21, name: 'port-hibernated', title: 'first request to a hibernated machine', bar: { at_most: 1.2 } },
      {
        async reference() {
          const id = `restored-${count++}`
          const bundle = raw.bundle(PYTHON)
          const ms = await timed(() => raw.runsc('restore', '--detach', '--image-path', image, '--bundle', bundle, id))
          await raw.runsc('delete', '--force', id)
          return ms
        },
        async subject() {
          await until('it is hibernated', PARK_MS, async () => !(await hasMachine()))
          await service.slots_ready()
          return timed(guest.visit)
        },
      },
      ONCE,
    )
  })
}

async function suspendedRow(service: Service, client: Client): Promise<void> {
  const guest = await openPortGuest(client, 'bench-port-suspended')
  const operate = async (verb: string) => {
    const { state, error } = await client.operate(`/v1/workspaces/${guest.workspace.id}/${verb}`)
    if (state !== 'succeeded') throw new Error(`${verb} ${state}: ${JSON.stringify(error)}`)
  }
  const asleep = async () => {
    await operate('suspend')
    await service.slots_ready()
  }
  await measure(
    { row: 21, name: 'port-suspended', title: 'first request to a suspended machine', bar: { at_most: 1.3 } },
    {
      async reference() {
        await asleep()
        return timed(() => operate('resume'))
      },
      async subject() {
        await asleep()
        return timed(guest.visit)
      },
    },
    ONCE,
  )
}
