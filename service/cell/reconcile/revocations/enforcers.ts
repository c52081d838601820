import { idOf } from '../../../core/revocations/messages.ts'
import type { EgressReconciler } from '../../policies/egress/reconciler.ts'
import type { LiveTable } from '../../machines/live-table.ts'
import type { Ports } from '../../ports/ports.ts'
import type { Enforcer } from './confirm.ts'

/** The caches of principals have no entry here: the notification itself clears them, before this process answers. */
export function revocationEnforcers(parts: {
  table: Pick<LiveTable, 'settled'>
  engine: Pick<EgressReconciler, 'settled'>
  ports: Pick<Ports, 'settled'>
}): Enforcer[] {
  const { table, engine, ports } = parts
  return [
    // In this order, because the end of a workspace ends leases of ports.
    async () => {
      await table.settled()
      await ports.settled()
    },
    async (scope) => {
      const workspace_id = idOf(scope, 'workspace')
      const project_id = idOf(scope, 'project')
      if (workspace_id !== null) await engine.settled({ workspace_id })
      if (project_id !== null) await engine.settled({ project_id })
    },
  ]
}
