import { LIMITS } from '../../../contract/limits.ts'
import type { AgentLinks } from '../host/agent.ts'
import { UNLIMITED_BUDGET } from '../host/buffer-budget.ts'
import type { MachineTable } from '../machines/table.ts'
import type { Lease } from './leases.ts'

export interface LookDeps {
  table: Pick<MachineTable, 'get'>
  agents: Pick<AgentLinks, 'of'>
}

/** @returns null if the listeners are unknown. */
export type FindListeners = (lease: Lease) => Promise<readonly string[] | null>

/** A guest that does not answer uses one permit for a limited time, which delays only its own visitors. */
export function createListenerLookup({ table, agents }: LookDeps): FindListeners {
  let under_way = 0
  return async ({ found: { workspace_id, port }, over }) => {
    const entry = table.get(workspace_id)
    if (under_way >= LIMITS.port.looks_max || entry === undefined || entry.machine === null) return null
    under_way += 1
    try {
      const signal = AbortSignal.any([over, AbortSignal.timeout(LIMITS.port.look_seconds_max * 1000)])
      return await agents.of(workspace_id, entry.machine, entry.gone).listListeners(port, { signal, room: UNLIMITED_BUDGET })
    } catch {
      return null // the visitor waits, as for an app that is still starting
    } finally {
      under_way -= 1
    }
  }
}
