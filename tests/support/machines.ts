import { existsSync } from 'node:fs'
import path from 'node:path'
import type { Inventory } from '../../contract/internal/host-inventory.ts'
import { until } from './processes.ts'
import type { Service } from './service.ts'

type Machine = Inventory['machines'][number]

export const OWN_ADDRESS = `python3 -c 'import socket; s = socket.socket(2, 2); s.connect(("203.0.113.1", 9)); print(s.getsockname()[0])'`

export interface Machines {
  /** undefined: the workspace has no machine. */
  stateOf(workspace_id: string): Promise<Machine['state'] | undefined>
  /** All callers share the queries. */
  until(what: string, limit_ms: number, holds: (machines: Machine[]) => boolean): Promise<void>
  untilNoNetwork(slot: string, limit_ms: number): Promise<void>
}

/** A query costs the host some milliseconds. */
const ASK_EVERY_MS = 150

export function machinesOf(service: Pick<Service, 'inventory' | 'run_dir'>): Machines {
  let asked = { at_ms: -ASK_EVERY_MS, answer: Promise.resolve<Machine[]>([]) }
  const recent = () => {
    if (performance.now() - asked.at_ms >= ASK_EVERY_MS)
      asked = { at_ms: performance.now(), answer: service.inventory().then(({ machines }) => machines) }
    return asked.answer
  }
  return {
    stateOf: async (id) => (await service.inventory()).machines.find(({ subject }) => subject.id === id)?.state,
    until: (what, limit_ms, holds) => until(what, limit_ms, async () => holds(await recent())),
    untilNoNetwork: (slot, limit_ms) =>
      until(`no network of ${slot}`, limit_ms, () => !existsSync(path.join(service.run_dir, 'net', 'netns', `m-${slot}`))),
  }
}
