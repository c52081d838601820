import type { CellRoute } from '../../../contract/route.ts'
import type { Db } from '../../db/database.ts'
import type { Handler } from '../../http/call.ts'
import type { Ids } from '../../lib/ids.ts'
import type { Waking } from '../machines/parking.ts'
import type { AskActivity } from '../machines/activity-query.ts'
import type { ShowResidency } from '../machines/show-residency.ts'
import type { Secrets } from '../policies/secrets/resolve.ts'
import type { MachineTable } from '../machines/table.ts'
import type { TicketOf } from '../admission/call-lease.ts'

export interface GatewayDeps {
  db: Db
  table: MachineTable
  ids: Ids
  waking: Waking
  showResidency: ShowResidency
  ask_activity: AskActivity
  secrets: Secrets
  agent_idle_ms: number
}

export type GatewayHandler<R extends CellRoute> = Handler<R, GatewayDeps, TicketOf<R>>
