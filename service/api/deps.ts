import type { CallDeps } from './calls/deps.ts'
import type { AccessDeps } from './access/deps.ts'
import type { RecordDeps } from './records/deps.ts'
import type { WorkspaceDeps } from './workspaces/deps.ts'
import type { MoneyDeps } from './money/deps.ts'
import type { TemplateDeps } from './templates/deps.ts'
import type { LifecycleDeps } from './lifecycle/deps.ts'

/** Only the wiring uses this type. A handler declares the few dependencies that it uses. */
export interface ApiDeps extends CallDeps, AccessDeps, RecordDeps, WorkspaceDeps, MoneyDeps, TemplateDeps, LifecycleDeps {
  /** Computed at the first call, which takes a tenth of a second. */
  openapi(): Buffer
}
