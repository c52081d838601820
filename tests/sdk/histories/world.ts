import { join } from 'node:path'
import { createFakeHost } from '../../../service/cell/host/fake/host.ts'
import { world } from '../../api/support.ts'
import { startApiProcess } from '../../support/api-process.ts'
import { startCellProcess } from '../../support/cell-process.ts'
import type { MainProcess } from '../../support/main-process.ts'
import { serveHost } from '../../support/served-host.ts'
import { sharedRestarts } from '../../support/shared-restarts.ts'
import { createGuests } from './guests.ts'
import { type HostileProxy, openHostileProxy } from './hostile-proxy.ts'

export const SERVED = ['api', 'cell'] as const
export const ENDS = ['kill', 'stop'] as const

/** A service without machines: api and cell are processes that restart, behind a network that fails. */
export interface RestartingWorld extends AsyncDisposable {
  proxy: HostileProxy
  api_key: string
  /** Resolves when the process serves again. Concurrent callers share one restart. */
  restart(name: (typeof SERVED)[number], how: (typeof ENDS)[number]): Promise<void>
  restarts: ReadonlyMap<string, number>
}

export async function openRestartingWorld(): Promise<RestartingWorld> {
  const w = await world()
  const capacity = { cpu_millis: 1e9, memory_mib: 1e9, disk_gib: 1e9 }
  const guests = createGuests()
  const socket = join(w.keys_dir, 'hostd')
  const host = await serveHost(createFakeHost({ capacity }), guests, socket)
  const start = { api: () => startApiProcess(w, {}), cell: () => startCellProcess(w, socket) }
  const [api, cell] = await Promise.all([start.api(), start.cell()])
  const running: Record<(typeof SERVED)[number], MainProcess> = { api, cell }
  const restarts = new Map<string, number>()
  const { restart, going } = sharedRestarts<(typeof SERVED)[number], (typeof ENDS)[number]>(async (name, how) => {
    restarts.set(`${how} ${name}`, (restarts.get(`${how} ${name}`) ?? 0) + 1)
    await running[name][how]()
    running[name] = await start[name]()
  })
  const at = (name: (typeof SERVED)[number]) => () => (going.has(name) ? null : running[name].base)
  const upstream = { api: at('api'), cell: at('cell'), endpoint: 'http://one.cell.test' }
  const proxy = await openHostileProxy(upstream, async (path) => {
    const [, , name, how] = path.split('/')
    const [asked, end] = [SERVED.find((each) => each === name), ENDS.find((each) => each === how)]
    if (asked !== undefined && end !== undefined) await restart(asked, end)
  })
  return {
    proxy,
    api_key: w.a.key,
    restart,
    restarts,
    async [Symbol.asyncDispose]() {
      await Promise.allSettled(going.values())
      proxy[Symbol.dispose]()
      await Promise.all(SERVED.map((name) => running[name].kill()))
      await host[Symbol.asyncDispose]()
      await guests[Symbol.asyncDispose]()
      await w[Symbol.asyncDispose]()
    },
  }
}
