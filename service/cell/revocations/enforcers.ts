import { idOf } from '../../core/revocations/words.ts'
import type { Engine } from '../engine.ts'
import type { LiveTable } from '../machines/live-table.ts'
import type { Ports } from '../ports/ports.ts'
import type { Enforcer } from './confirm.ts'

/**
 * Every part of a cell that remembers a right, and so has to be asked whether it still does. The gate's standings of keys and people are
 * dropped as they are heard of: a process that answers after that has dropped them.
 */
export function revocationEnforcers(parts: {
  table: Pick<LiveTable, 'settled'>
  engine: Pick<Engine, 'settled'>
  ports: Pick<Ports, 'settled'>
}): Enforcer[] {
  const { table, engine, ports } = parts
  return [
    // Ends of workspaces cut leases of ports: those are asked for when the table has taken them in.
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
