import type { CallDeps } from './calls/deps.ts'
import type { AccessDeps } from './access/deps.ts'
import type { RecordDeps } from './records/deps.ts'
import type { WorkspaceDeps } from './workspaces/deps.ts'
import type { MoneyDeps } from './money/deps.ts'
import type { TemplateDeps } from './templates/deps.ts'
import type { LifecycleDeps } from './lifecycle/deps.ts'

/** Only the wiring knows all: a handler names the few that it uses. */
export interface ApiDeps extends CallDeps, AccessDeps, RecordDeps, WorkspaceDeps, MoneyDeps, TemplateDeps, LifecycleDeps {
  /** The first call takes a tenth of a second. */
  openapi(): Buffer
}
