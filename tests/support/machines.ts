import type { Inventory } from '../../service/cell/links/hostd.ts'
import { until } from './processes.ts'
import type { Service } from './service.ts'

type Machine = Inventory['machines'][number]

/** What the host says of machines, for tests that wait for many side by side. */
export interface Machines {
  /** As it is at this moment; undefined where there is no machine. */
  stateOf(workspace_id: string): Promise<Machine['state'] | undefined>
  /** Returns when the condition holds for what the host said last. All that wait share one question. */
  until(what: string, limit_ms: number, holds: (machines: Machine[]) => boolean): Promise<void>
}

/** A question to the host costs it some milliseconds. */
const ASK_EVERY_MS = 150

export function machinesOf(service: Service): Machines {
  let asked = { at_ms: -ASK_EVERY_MS, answer: Promise.resolve<Machine[]>([]) }
  const recent = () => {
    if (performance.now() - asked.at_ms >= ASK_EVERY_MS)
      asked = { at_ms: performance.now(), answer: service.inventory().then(({ machines }) => machines) }
    return asked.answer
  }
  return {
    stateOf: async (id) => (await service.inventory()).machines.find(({ subject }) => subject.id === id)?.state,
    until: (what, limit_ms, holds) => until(what, limit_ms, async () => holds(await recent())),
  }
}
