import type { ColumnType, Generated, JSONColumnType } from 'kysely'
import type { OperationErrorCode, ReasonOf } from '../../contract/errors.ts'
import type { ActorFacts, AuditChainsTable, AuditEventsTable, FeedbackTable } from './schema-audit.ts'
import type {
  CheckoutsTable,
  InvoicesTable,
  OveragePeriodsTable,
  PaymentAccountsTable,
  PaymentEventsTable,
  PaymentInvoicesTable,
  SubscriptionChangesTable,
} from './schema-billing.ts'
import type { ExecutionsTable } from './schema-executions.ts'
import type { ServiceKeysTable, SigningKeysTable } from './schema-keys.ts'
import type {
  SpendAlertSettingsTable,
  SpendAlertsTable,
  SpendPoliciesTable,
  UsageCountersTable,
  UsageEntriesTable,
  UsageGrantDrawsTable,
  UsageGrantsTable,
  UsageHoursTable,
  UsageSamplesTable,
  UsageStorageTable,
} from './schema-usage.ts'
import type { AuthoritiesTable, SealingKeysTable, SecretsTable, SecretVersionsTable } from './schema-secrets.ts'
import type { WorkspaceAuthoritiesTable, WorkspaceSecretsTable } from './schema-secrets.ts'
import type { OperationSubject } from '../../contract/states/operation.ts'
import type {
  StartupState,
  TemplatesTable,
  LayerDirectoriesTable,
  LayerListsTable,
  TemplateBuildStepsTable,
  TemplateCapturesTable,
  TemplateUploadsTable,
  TemplateVersionsTable,
  UnnamedLayersTable,
} from './schema-templates.ts'
import type { EgressDenialsTable, EgressVersionsTable, WorkspaceEgressTable } from './schema-egress.ts'
import type { ExportPartsTable, ExportsTable } from './schema-exports.ts'
import type { TemplateBuildLogsTable, TemplateBuildsTable, TemplateDraftsTable, TemplateDraftStatesTable } from './schema-builds.ts'
import type { VolumeAttachmentsTable, VolumesTable, VolumeUsageReadingsTable, VolumeUsageSamplesTable } from './schema-volumes.ts'
import type { PortCredentialsTable, WorkspacePortsTable } from './schema-ports.ts'
import type {
  ApiKeysTable,
  ApiKeyUsesTable,
  EmailTokensTable,
  InvitationsTable,
  MailsTable,
  MembershipsTable,
  PeopleTable,
  PersonCredentialsTable,
  PersonSessionsTable,
  RecoveryCodesTable,
} from './schema-people.ts'
import type { TreeKeysTable, TreeRevisionsTable, TreesTable } from './schema-trees.ts'

/** Tables and columns of migrations/. Times are Dates in milliseconds, since all of them come from our clock. */
export interface Database {
  installation: InstallationTable
  plans: PlansTable
  organizations: OrganizationsTable
  projects: ProjectsTable
  people: PeopleTable
  memberships: MembershipsTable
  person_credentials: PersonCredentialsTable
  recovery_codes: RecoveryCodesTable
  person_sessions: PersonSessionsTable
  email_tokens: EmailTokensTable
  invitations: InvitationsTable
  mails: MailsTable
  api_keys: ApiKeysTable
  api_key_uses: ApiKeyUsesTable
  templates: TemplatesTable
  template_versions: TemplateVersionsTable
  template_uploads: TemplateUploadsTable
  template_build_steps: TemplateBuildStepsTable
  unnamed_layers: UnnamedLayersTable
  template_captures: TemplateCapturesTable
  layer_lists: LayerListsTable
  layer_directories: LayerDirectoriesTable
  cells: CellsTable
  workspaces: WorkspacesTable
  machines: MachinesTable
  workspace_keys: WorkspaceKeysTable
  checkpoints: CheckpointsTable
  operations: OperationsTable
  workspace_holds: WorkspaceHoldsTable
  idempotency_entries: IdempotencyEntriesTable
  agent_sessions: AgentSessionsTable
  audit_events: AuditEventsTable
  audit_chains: AuditChainsTable
  feedback: FeedbackTable
  signing_keys: SigningKeysTable
  service_keys: ServiceKeysTable
  sealing_keys: SealingKeysTable
  secrets: SecretsTable
  secret_versions: SecretVersionsTable
  workspace_secrets: WorkspaceSecretsTable
  authorities: AuthoritiesTable
  workspace_authorities: WorkspaceAuthoritiesTable
  rate_buckets: RateBucketsTable
  usage_samples: UsageSamplesTable
  usage_counters: UsageCountersTable
  usage_storage: UsageStorageTable
  usage_entries: UsageEntriesTable
  usage_hours: UsageHoursTable
  usage_open_hours: UsageHoursTable
  spend_policies: SpendPoliciesTable
  subscription_changes: SubscriptionChangesTable
  overage_periods: OveragePeriodsTable
  invoices: InvoicesTable
  payment_accounts: PaymentAccountsTable
  checkouts: CheckoutsTable
  payment_events: PaymentEventsTable
  payment_invoices: PaymentInvoicesTable
  usage_grants: UsageGrantsTable
  usage_grant_draws: UsageGrantDrawsTable
  spend_alert_settings: SpendAlertSettingsTable
  spend_alerts: SpendAlertsTable
  trees: TreesTable
  tree_revisions: TreeRevisionsTable
  tree_keys: TreeKeysTable
  executions: ExecutionsTable
  template_builds: TemplateBuildsTable
  template_build_logs: TemplateBuildLogsTable
  template_drafts: TemplateDraftsTable
  template_draft_states: TemplateDraftStatesTable
  volumes: VolumesTable
  volume_attachments: VolumeAttachmentsTable
  volume_usage_samples: VolumeUsageSamplesTable
  volume_usage_readings: VolumeUsageReadingsTable
  workspace_ports: WorkspacePortsTable
  port_credentials: PortCredentialsTable
  egress_versions: EgressVersionsTable
  workspace_egress: WorkspaceEgressTable
  egress_denials: EgressDenialsTable
  exports: ExportsTable
  export_parts: ExportPartsTable
}

/** jsonb that is read as an object and written as text. */
export type Json<T extends object | null> = JSONColumnType<T, string, string>
export type NullableJson<T extends object> = ColumnType<T | null, string | null, string | null>
export type JsonWithDefault<T extends object> = ColumnType<T, string | undefined, string>
/** The driver returns int8 as text; watched-pool.ts parses it. All our counters are safe integers. */
export type Int8 = ColumnType<number, number | bigint, number | bigint>
export type Int8WithDefault = ColumnType<number, number | undefined, number>

export interface Resources {
  cpu_millis: number
  memory_mib: number
  disk_gib: number
}

interface InstallationTable {
  id: Generated<string>
  is_only: Generated<true>
}

interface PlansTable {
  id: string
  slug: string
  name: string
  concurrent_workspaces: number | null
  cpu_millis: number | null
  memory_mib: number | null
  disk_gib: number | null
  missing_limits: Generated<string[]>
  shared_volumes_max: ColumnType<number | null, number | null | undefined, number | null>
  shared_volume_gib_max: ColumnType<number | null, number | null | undefined, number | null>
  volume_attachments_per_workspace: ColumnType<number | null, number | null | undefined, number | null>
  missing_volume_limits: Generated<string[]>
  concurrent_template_builds: ColumnType<number | null, number | null | undefined, number | null>
  cpu_hours: ColumnType<number | null, number | null | undefined, number | null>
  ram_gib_hours: ColumnType<number | null, number | null | undefined, number | null>
  is_listed: Generated<boolean>
  currency: ColumnType<string | null, string | null | undefined, string | null>
  price_minor: ColumnType<number | null, number | null | undefined, number | null>
  cpu_hour_minor: ColumnType<number | null, number | null | undefined, number | null>
  ram_gib_hour_minor: ColumnType<number | null, number | null | undefined, number | null>
  refuses_starts: ColumnType<ReasonOf<'entitlement_required'> | null, string | null, string | null>
  created_at: Date
}

interface OrganizationsTable {
  id: string
  name: string
  slug: string
  plan_id: string
  allowance_exhausted: ColumnType<ReasonOf<'allowance_exhausted'> | null, string | null, string | null>
  refuses_starts: ColumnType<ReasonOf<'entitlement_required'> | null, string | null | undefined, string | null>
  grace_until: ColumnType<Date | null, Date | null | undefined, Date | null>
  allowance: ColumnType<object | null, string | null | undefined, string | null>
  billed_through: ColumnType<Date | null, Date | null | undefined, Date | null>
  payment_refuses_starts: ColumnType<ReasonOf<'entitlement_required'> | null, string | null | undefined, string | null>
  payment_grace_until: ColumnType<Date | null, Date | null | undefined, Date | null>
  created_at: Date
  /** deleting_at: nothing new is created from then on. deleted_at: nothing is left. */
  deleting_at: ColumnType<Date | null, Date | null | undefined, Date | null>
  deleted_at: ColumnType<Date | null, Date | null | undefined, Date | null>
}

interface ProjectsTable {
  id: string
  organization_id: string
  name: string
  slug: string
  created_at: Date
}

interface CellsTable {
  id: string
  name: string
  endpoint: string
  engine: string | null
  capacity_cpu_millis: number | null
  capacity_memory_mib: number | null
  capacity_disk_gib: number | null
  created_at: Date
  seen_at: Date | null
  measured_at: ColumnType<Date | null, Date | null | undefined, Date | null>
}

interface WorkspacesTable {
  id: string
  organization_id: string
  project_id: string
  key: string
  template_version_id: string
  observed_state: string
  desired_state: 'running' | 'suspended' | 'deleted'
  pending_reason: string | null
  ended_reason: string | null
  lifetime: 'persistent' | 'session'
  mode: 'processful' | 'file_first'
  purpose: Generated<string>
  disk_layout: 'legacy' | 'layered'
  origin: NullableJson<object>
  caps: JsonWithDefault<Partial<Resources>>
  ceiling_cpu_millis: number
  ceiling_memory_mib: number
  ceiling_disk_gib: number
  grant_cpu_millis: number | null
  grant_memory_mib: number | null
  grant_disk_gib: number | null
  inputs: JsonWithDefault<Record<string, string>>
  startup: NullableJson<StartupState>
  tree_revision: ColumnType<number | null, number | null, number | null>
  cell_id: string | null
  ownership_epoch: Int8WithDefault
  disk: string | null
  checkpoint_id: string | null
  idle_policy: string | null
  background_seconds: number | null
  draft_state_id: ColumnType<string | null, string | null | undefined, never>
  state_layers: ColumnType<string[] | null, string[] | null | undefined, string[]>
  /** Root of the workspace's forks; null: it is no fork. */
  family_id: ColumnType<string | null, string | null | undefined, never>
  active_at: Date
  tool_call_at: Date | null
  busy_until: Date | null
  keepalive_until: Date | null
  suspend_requested_at: Date | null
  suspend_after_seconds: number | null
  suspend_not_before: Date | null
  idle_gaps: Generated<number[] | null>
  idle_failures: Generated<number>
  idle_retry_at: Generated<Date | null>
  residency: Generated<'resident' | 'hibernated' | 'restoring'>
  residency_fence: Int8WithDefault
  tokens_revoked_before: Date | null
  created_at: Date
  updated_at: Date
  deleted_at: Date | null
  /** Written by triggers of `volume_attachments`. */
  volumes: JsonWithDefault<MachineVolume[]>
}

export interface MachineVolume {
  volume_id: string
  place: number
  mount_path: string
  read_only: boolean
}

/** Triggers of `workspaces` write the rows of workspaces; the owner of a machine of another kind writes its row. */
interface MachinesTable {
  kind: 'workspace' | 'execution' | 'build' | 'test_instance'
  id: string
  workspace_id: string | null
  organization_id: string
  project_id: string
  cell_id: string
  grant_cpu_millis: number
  grant_memory_mib: number
  grant_disk_gib: number
  epoch: Int8
  fence: Int8WithDefault
  disk: string | null
  checkpoint_id: string | null
  residency: Generated<'resident' | 'hibernated' | 'restoring'>
}

interface WorkspaceKeysTable {
  organization_id: string
  project_id: string
  key: string
  workspace_id: string
  reusable: Generated<boolean>
}

interface CheckpointsTable {
  id: string
  workspace_id: string
  cell_id: string
  operation_id: string
  kind: 'suspend' | 'snapshot' | 'fork' | 'recovery' | 'layer' | 'parked'
  label: string | null
  epoch: Int8
  engine: string
  size_bytes: Int8
  disk_bytes: ColumnType<number | null, number | null | undefined, number | null>
  resources: Json<Resources>
  created_at: Date
  expires_at: Date | null
  /** The owner deleted the checkpoint; it owns no files any more. */
  deleted_at: ColumnType<Date | null, Date | null | undefined, Date | null>
}

export interface OperationError {
  code: OperationErrorCode
  message: string
  retryable: boolean
  details?: Record<string, unknown>
}

interface OperationsTable {
  id: string
  organization_id: string
  /** null: the operation is on an organization. */
  project_id: string | null
  workspace_id: string | null
  source_workspace_id: string | null
  /** null: the row is older than the column. */
  requested_by: NullableJson<ActorFacts>
  subject_kind: Generated<OperationSubject>
  subject_id: Generated<string>
  kind: string
  state: 'queued' | 'capacity_pending' | 'running' | 'succeeded' | 'failed' | 'canceled'
  state_reason: string | null
  input: JsonWithDefault<Record<string, unknown>>
  result: NullableJson<Record<string, unknown>>
  error: NullableJson<OperationError>
  created_at: Date
  updated_at: Date
  started_at: Date | null
  completed_at: Date | null
  deadline_at: Date | null
  cell_id: string | null
  attempt: Generated<number>
  fence: Int8WithDefault
  step: string | null
  progress: JsonWithDefault<Record<string, unknown>>
}

interface WorkspaceHoldsTable {
  workspace_id: string
  operation_id: string
  gate: 'open' | 'read_only' | 'closed'
}

interface IdempotencyEntriesTable {
  principal: string
  route: string
  key: string
  fingerprint: Buffer
  outcome: Json<Record<string, unknown>>
  created_at: Date
}

interface AgentSessionsTable {
  id: string
  workspace_id: string
  principal_type: 'api_key' | 'user'
  principal_id: string
  agent_label: string
  created_at: Date
  last_used_at: Date
}

interface RateBucketsTable {
  name: string
  tokens: number
  updated_at: Date
}
