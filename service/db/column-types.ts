import type { ColumnType, Generated, JSONColumnType } from 'kysely'
import type { EgressPolicy } from '../../contract/egress/policy.ts'
import type { OperationErrorCode, StartupReason } from '../../contract/errors.ts'
import type { ACTOR_KINDS } from '../../contract/schemas/audit.ts'
import type { InvoiceLine } from '../../contract/schemas/billing.ts'
import type { Changed, ExecutionError, ExecutionTimings } from '../../contract/schemas/cell/execution.ts'
import type { ScanFinding } from '../../contract/schemas/scan-findings.ts'
import type { NormalSecretHost } from '../../contract/schemas/secrets.ts'
import type { MailKind } from '../../contract/states/mail.ts'
import type { OperationSubject } from '../../contract/states/operation.ts'

/** A jsonb column, which is read as an object and written as text. */
export type Json<T extends object> = JSONColumnType<T, string, string>
export type JsonWithDefault<T extends object> = ColumnType<T, string | undefined, string>
/** An int8 column. The driver returns text, which watched-pool.ts parses. All counters of Berth are safe integers. */
export type Int8 = ColumnType<number, number | bigint, number | bigint>
export type Int8WithDefault = ColumnType<number, number | bigint | undefined, number | bigint>

/**
 * Types that the catalog does not contain: of JSON, and of text whose values no check lists. Other JSON is `object`.
 * `npm run schema` reads the keys and adds null and the default of the column. A migration documents the unit and the null of a column.
 */
export interface ColumnTypes {
  'audit_events.details': Record<string, unknown>
  'checkpoints.resources': Resources
  /** 0: no port. */
  'egress_denials.port': number
  'egress_versions.rules': EgressPolicy['rules']
  'executions.changed': Changed[]
  'executions.error': ExecutionError
  'executions.timings': Partial<ExecutionTimings>
  'feedback.context': Record<string, string>
  'idempotency_entries.outcome': Record<string, unknown>
  'invoices.lines': InvoiceLine[]
  'layer_directories.entries': object[]
  'mails.kind': MailKind
  'operations.error': OperationError
  'operations.input': Record<string, unknown>
  'operations.progress': Record<string, unknown>
  'operations.requested_by': ActorFacts
  'operations.result': Record<string, unknown>
  /** A trigger sets this column from `workspace_id`. */
  'operations.subject_id': Generated<string>
  'operations.subject_kind': OperationSubject
  /** Time at which the account ended. The row is kept because other rows reference it. */
  'people.deleted_at': Date
  /** Last password check in this session. */
  'person_sessions.stepped_up_at': Date
  'secrets.hosts': NormalSecretHost[]
  'template_builds.findings': ScanFinding[]
  'template_uploads.parts': object[]
  'template_versions.scan_findings': ScanFinding[]
  'tree_revisions.changes': TreeCounts
  'tree_revisions.made_by': MadeBy
  'trees.changes': TreeCounts
  'trees.made_by': MadeBy
  'workspaces.caps': Partial<Resources>
  'workspaces.inputs': Record<string, string>
  'workspaces.startup': StartupState
  'workspaces.volumes': MachineVolume[]
}

export interface Resources {
  cpu_millis: number
  memory_mib: number
  disk_gib: number
}

/** The columns `actor_*` of a record. */
export interface ActorFacts {
  kind: (typeof ACTOR_KINDS)[number]
  id: string | null
  name: string | null
}

export interface OperationError {
  code: OperationErrorCode
  message: string
  retryable: boolean
  details?: Record<string, unknown>
}

/** Progress of the template version's start commands and services. The steps before `step` are done. */
export type StartupState =
  | { state: 'pending' | 'ready' }
  | { state: 'running'; step: string }
  | { state: 'failed'; step: string; reason: StartupReason; exit_code: number | null; output_tail: string }

/** Triggers of `volume_attachments` write these. */
export interface MachineVolume {
  volume_id: string
  place: number
  mount_path: string
  read_only: boolean
}

/** Numbers of entries that changed since the previous revision. */
export interface TreeCounts {
  added: number
  modified: number
  metadata: number
  deleted: number
  replaced: number
}

/** Origin of a revision: the route id of a call, or a command. */
export type MadeBy = { call: string } | { execution_id: string }
