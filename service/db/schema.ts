// Generated from migrations/ and column-types.ts by `npm run schema`.
import type { Generated } from 'kysely'
import type { ColumnTypes, Int8, Int8WithDefault, Json, JsonWithDefault } from './column-types.ts'

export interface Database {
  agent_sessions: AgentSessionsTable
  api_key_uses: ApiKeyUsesTable
  api_keys: ApiKeysTable
  audit_chains: AuditChainsTable
  audit_events: AuditEventsTable
  authorities: AuthoritiesTable
  cells: CellsTable
  checkouts: CheckoutsTable
  checkpoints: CheckpointsTable
  egress_denials: EgressDenialsTable
  egress_versions: EgressVersionsTable
  email_tokens: EmailTokensTable
  executions: ExecutionsTable
  export_parts: ExportPartsTable
  exports: ExportsTable
  feedback: FeedbackTable
  idempotency_entries: IdempotencyEntriesTable
  installation: InstallationTable
  invitations: InvitationsTable
  invoices: InvoicesTable
  layer_directories: LayerDirectoriesTable
  layer_lists: LayerListsTable
  machines: MachinesTable
  mails: MailsTable
  memberships: MembershipsTable
  operations: OperationsTable
  organizations: OrganizationsTable
  overage_periods: OveragePeriodsTable
  payment_accounts: PaymentAccountsTable
  payment_events: PaymentEventsTable
  payment_invoices: PaymentInvoicesTable
  people: PeopleTable
  person_credentials: PersonCredentialsTable
  person_sessions: PersonSessionsTable
  plans: PlansTable
  port_credentials: PortCredentialsTable
  projects: ProjectsTable
  rate_buckets: RateBucketsTable
  recovery_codes: RecoveryCodesTable
  sealing_keys: SealingKeysTable
  secret_versions: SecretVersionsTable
  secrets: SecretsTable
  service_keys: ServiceKeysTable
  signing_keys: SigningKeysTable
  spend_alert_settings: SpendAlertSettingsTable
  spend_alerts: SpendAlertsTable
  spend_policies: SpendPoliciesTable
  subscription_changes: SubscriptionChangesTable
  template_build_logs: TemplateBuildLogsTable
  template_build_steps: TemplateBuildStepsTable
  template_builds: TemplateBuildsTable
  template_captures: TemplateCapturesTable
  template_draft_states: TemplateDraftStatesTable
  template_drafts: TemplateDraftsTable
  template_uploads: TemplateUploadsTable
  template_versions: TemplateVersionsTable
  templates: TemplatesTable
  tree_keys: TreeKeysTable
  tree_revisions: TreeRevisionsTable
  trees: TreesTable
  unnamed_layers: UnnamedLayersTable
  usage_counters: UsageCountersTable
  usage_entries: UsageEntriesTable
  usage_grant_draws: UsageGrantDrawsTable
  usage_grants: UsageGrantsTable
  usage_hours: UsageHoursTable
  usage_open_hours: UsageOpenHoursTable
  usage_samples: UsageSamplesTable
  usage_storage: UsageStorageTable
  volume_attachments: VolumeAttachmentsTable
  volume_usage_readings: VolumeUsageReadingsTable
  volume_usage_samples: VolumeUsageSamplesTable
  volumes: VolumesTable
  workspace_authorities: WorkspaceAuthoritiesTable
  workspace_egress: WorkspaceEgressTable
  workspace_holds: WorkspaceHoldsTable
  workspace_keys: WorkspaceKeysTable
  workspace_ports: WorkspacePortsTable
  workspace_secrets: WorkspaceSecretsTable
  workspaces: WorkspacesTable
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

interface ApiKeyUsesTable {
  api_key_id: string
  last_used_at: Date
}

interface ApiKeysTable {
  id: string
  key_id: string
  secret_sha256: Buffer
  organization_id: string
  project_id: string
  name: Generated<string>
  tool_permissions: string[]
  created_at: Date
  expires_at: Date | null
  revoked_at: Date | null
  tools_changed_at: Date | null
}

interface AuditChainsTable {
  chain_id: string
  sequence: Int8
  sha256: Buffer
  dropped_sequence: Int8
  dropped_sha256: Buffer
}

interface AuditEventsTable {
  id: string
  created_at: Date
  organization_id: string | null
  project_id: string | null
  actor_kind: 'api_key' | 'user' | 'tool_token' | 'operator' | 'service'
  actor_id: string | null
  actor_name: string | null
  action: string
  subject_kind: string
  subject_id: string
  request_id: string | null
  source_address: string | null
  details: JsonWithDefault<ColumnTypes['audit_events.details']>
  sequence: Int8 | null
  sha256: Buffer | null
}

interface AuthoritiesTable {
  id: string
  certificate: string
  key_id: string
  sealed_key: string
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
  measured_at: Date | null
}

interface CheckoutsTable {
  id: string
  organization_id: string
  plan_id: string
  state: 'pending' | 'completed' | 'expired' | 'superseded'
  session_id: string | null
  look_at: Date
  created_at: Date
  expires_at: Date
}

interface CheckpointsTable {
  id: string
  workspace_id: string
  cell_id: string
  operation_id: string
  kind: 'suspend' | 'snapshot' | 'fork' | 'recovery' | 'parked' | 'layer'
  label: string | null
  epoch: Int8
  engine: string
  size_bytes: Int8
  resources: Json<ColumnTypes['checkpoints.resources']>
  created_at: Date
  expires_at: Date | null
  deleted_at: Date | null
  disk_bytes: Int8 | null
}

interface EgressDenialsTable {
  workspace_id: string
  protocol: 'tcp' | 'udp' | 'dns' | 'other'
  target: string
  port: ColumnTypes['egress_denials.port']
  first_at: Date
  name: string | null
  address: string | null
  count: Int8
  last_at: Date
}

interface EgressVersionsTable {
  id: string
  organization_id: string
  project_id: string
  workspace_id: string | null
  version: number
  mode: 'allow_all' | 'allowlist' | 'deny_all' | null
  rules: JsonWithDefault<ColumnTypes['egress_versions.rules']>
  cidrs: Generated<string[]>
  created_by_type: 'user' | 'api_key'
  created_by_id: string
  created_at: Date
}

interface EmailTokensTable {
  token_sha256: Buffer
  person_id: string
  purpose: 'verify_email' | 'reset_password' | 'change_email'
  email: string
  created_at: Date
  expires_at: Date
  used_at: Date | null
}

interface ExecutionsTable {
  workspace_id: string
  execution_id: string
  cell_id: string
  fingerprint: string
  state: Generated<'queued' | 'running' | 'succeeded' | 'failed' | 'lost'>
  base_revision: Int8
  tree_revision: Int8 | null
  exit_code: number | null
  term_signal: string | null
  timed_out: Generated<boolean>
  stdout: Generated<Buffer>
  stderr: Generated<Buffer>
  stdout_truncated: Generated<boolean>
  stderr_truncated: Generated<boolean>
  changed: JsonWithDefault<ColumnTypes['executions.changed']>
  changed_truncated: Generated<boolean>
  timings: JsonWithDefault<ColumnTypes['executions.timings']>
  error: Json<ColumnTypes['executions.error']> | null
  created_at: Date
  finished_at: Date | null
  argv: string[] | null
  argv_truncated: Generated<boolean>
  cwd: string | null
}

interface ExportPartsTable {
  export_id: string
  attempt: number
  number: number
  bytes: Buffer
}

interface ExportsTable {
  id: string
  organization_id: string | null
  requested_by: string
  state: 'queued' | 'running' | 'ready' | 'failed' | 'expired'
  failure: 'export_too_large' | 'internal_error' | null
  attempt: Generated<number>
  next_try_at: Date
  size_bytes: Int8 | null
  sha256: string | null
  created_at: Date
  completed_at: Date | null
  expires_at: Date | null
}

interface FeedbackTable {
  id: string
  received_at: Date
  organization_id: string | null
  principal_type: 'api_key' | 'user'
  principal_id: string
  category: 'bug' | 'confusing' | 'missing' | 'idea' | 'praise' | 'other'
  message: string | null
  message_sha256: Buffer
  context: JsonWithDefault<ColumnTypes['feedback.context']>
  duplicate_of: string | null
}

interface IdempotencyEntriesTable {
  principal: string
  route: string
  key: string
  fingerprint: Buffer
  outcome: Json<ColumnTypes['idempotency_entries.outcome']>
  created_at: Date
}

interface InstallationTable {
  id: Generated<string>
  is_only: Generated<boolean>
}

interface InvitationsTable {
  id: string
  organization_id: string
  email: string
  role: 'owner' | 'admin' | 'member' | 'billing'
  invited_by: string | null
  token_sha256: Buffer | null
  created_at: Date
  expires_at: Date
  accepted_at: Date | null
  revoked_at: Date | null
}

interface InvoicesTable {
  id: string
  organization_id: string
  number: string
  state: 'open' | 'paid' | 'void'
  period_starts_at: Date
  period_ends_at: Date
  currency: string
  lines: Json<ColumnTypes['invoices.lines']>
  total_minor: Int8
  issued_at: Date
  due_at: Date
  paid_at: Date | null
  voided_at: Date | null
}

interface LayerDirectoriesTable {
  layer: string
  path_sha256: Buffer
  entries: Json<ColumnTypes['layer_directories.entries']>
}

interface LayerListsTable {
  layer: string
  state: 'wanted' | 'ready' | 'unavailable'
  reached: string | null
  updated_at: Date
}

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

interface MailsTable {
  id: string
  kind: ColumnTypes['mails.kind']
  email: string
  person_id: string | null
  invitation_id: string | null
  created_at: Date
  next_try_at: Date
  tries: Generated<number>
  sent_at: Date | null
  given_up_at: Date | null
  last_error: string | null
  spend_alert_id: string | null
}

interface MembershipsTable {
  organization_id: string
  person_id: string
  role: 'owner' | 'admin' | 'member' | 'billing'
  created_at: Date
}

interface OperationsTable {
  id: string
  organization_id: string
  project_id: string | null
  workspace_id: string | null
  source_workspace_id: string | null
  kind: 'open' | 'suspend' | 'resume' | 'fork' | 'snapshot' | 'restore' | 'adopt' | 'delete' | 'reset' | 'layer_snapshot' | 'volume_create' | 'volume_delete' | 'volume_attach' | 'volume_detach' | 'template_build' | 'move'
  state: 'queued' | 'capacity_pending' | 'running' | 'succeeded' | 'failed' | 'canceled'
  state_reason: string | null
  input: JsonWithDefault<ColumnTypes['operations.input']>
  result: Json<ColumnTypes['operations.result']> | null
  error: Json<ColumnTypes['operations.error']> | null
  created_at: Date
  updated_at: Date
  started_at: Date | null
  completed_at: Date | null
  deadline_at: Date | null
  cell_id: string | null
  attempt: Generated<number>
  fence: Int8WithDefault
  step: string | null
  progress: JsonWithDefault<ColumnTypes['operations.progress']>
  subject_kind: Generated<ColumnTypes['operations.subject_kind']>
  subject_id: ColumnTypes['operations.subject_id']
  requested_by: Json<ColumnTypes['operations.requested_by']> | null
}

interface OrganizationsTable {
  id: string
  name: string
  slug: string
  plan_id: string
  allowance_exhausted: 'allowance_used' | 'overage_paused' | 'spend_cap_reached' | null
  created_at: Date
  refuses_starts: 'no_plan' | 'payment_past_due' | 'unpaid' | 'operator_hold' | null
  grace_until: Date | null
  allowance: Json<object> | null
  deleting_at: Date | null
  deleted_at: Date | null
  billed_through: Date | null
  payment_refuses_starts: 'payment_past_due' | 'unpaid' | null
  payment_grace_until: Date | null
}

interface OveragePeriodsTable {
  organization_id: string
  period_starts_at: Date
  spend_cap_minor: number | null
}

interface PaymentAccountsTable {
  organization_id: string
  customer_id: string
  subscription_id: string | null
  plan_id: string | null
  plan_before_id: string | null
  look_at: Date
  created_at: Date
}

interface PaymentEventsTable {
  id: string
  kind: 'checkout' | 'subscription' | 'invoice'
  object_id: string
  received_at: Date
  applied_at: Date | null
  next_try_at: Date
  tries: Generated<number>
  last_error: string | null
}

interface PaymentInvoicesTable {
  invoice_id: string
  remote_id: string | null
  pushed_at: Date | null
  settled_at: Date | null
  next_try_at: Date
  tries: Generated<number>
  last_error: string | null
}

interface PeopleTable {
  id: string
  email: string
  email_verified: Generated<boolean>
  display_name: string | null
  mfa_enabled: Generated<boolean>
  created_at: Date
  deleted_at: ColumnTypes['people.deleted_at'] | null
}

interface PersonCredentialsTable {
  person_id: string
  password_hash: string | null
  password_changed_at: Date | null
  totp_sealed: Buffer | null
  totp_step: Int8WithDefault
  totp_pending_sealed: Buffer | null
  totp_pending_at: Date | null
  mfa_failures: Generated<number>
  mfa_locked_until: Date | null
}

interface PersonSessionsTable {
  id: string
  person_id: string
  token_sha256: Buffer
  created_at: Date
  last_used_at: Date
  expires_at: Date
  revoked_at: Date | null
  mfa_pending: Generated<boolean>
  stepped_up_at: ColumnTypes['person_sessions.stepped_up_at'] | null
  device: string | null
  address: string | null
}

interface PlansTable {
  id: string
  slug: string
  name: string
  concurrent_workspaces: number | null
  cpu_millis: number | null
  memory_mib: number | null
  disk_gib: number | null
  refuses_starts: 'no_plan' | 'payment_past_due' | 'unpaid' | 'operator_hold' | null
  created_at: Date
  missing_limits: Generated<string[]>
  shared_volumes_max: number | null
  shared_volume_gib_max: number | null
  volume_attachments_per_workspace: number | null
  missing_volume_limits: Generated<string[]>
  cpu_hours: number | null
  ram_gib_hours: number | null
  is_listed: Generated<boolean>
  currency: string | null
  price_minor: number | null
  cpu_hour_minor: number | null
  ram_gib_hour_minor: number | null
  concurrent_template_builds: number | null
}

interface PortCredentialsTable {
  id: string
  port_id: string
  kind: 'token' | 'link' | 'cookie' | 'callback'
  sha256: Buffer
  path: string | null
  created_at: Date
  expires_at: Date | null
}

interface ProjectsTable {
  id: string
  organization_id: string
  name: string
  slug: string
  created_at: Date
}

interface RateBucketsTable {
  name: string
  tokens: number
  updated_at: Date
}

interface RecoveryCodesTable {
  person_id: string
  code_sha256: Buffer
  created_at: Date
  used_at: Date | null
}

interface SealingKeysTable {
  key_id: string
  public_jwk: Json<object>
  created_at: Date
}

interface SecretVersionsTable {
  id: string
  secret_id: string
  version: number
  created_at: Date
  erased_at: Date | null
  key_id: string | null
  wrapped_key: string | null
  ciphertext: Buffer | null
}

interface SecretsTable {
  id: string
  organization_id: string
  project_id: string | null
  name: string
  description: string | null
  allowed_project_ids: string[] | null
  allowed_workspace_ids: string[] | null
  allowed_tools: string[]
  version: number
  created_at: Date
  updated_at: Date
  deleted_at: Date | null
  hosts: Json<ColumnTypes['secrets.hosts']> | null
}

interface ServiceKeysTable {
  purpose: 'cursor' | 'idempotency'
  key_id: string
  created_at: Date
  check_sha256: Buffer | null
  retired_at: Date | null
}

interface SigningKeysTable {
  kid: string
  public_jwk: Json<object>
  created_at: Date
  retired_at: Date | null
}

interface SpendAlertSettingsTable {
  organization_id: string
  thresholds_percent: number[]
  changed_at: Date
}

interface SpendAlertsTable {
  id: string
  organization_id: string
  period_starts_at: Date
  subject: 'cpu_hours' | 'ram_gib_hours' | 'spend_cap'
  threshold_percent: number
  reached_at: Date
  mailed_at: Date | null
}

interface SpendPoliciesTable {
  organization_id: string
  version: number
  overage_enabled: boolean
  spend_cap_minor: number | null
  enabled_in: Date | null
  changed_at: Date
}

interface SubscriptionChangesTable {
  organization_id: string
  changed_at: Date
  plan: string
  currency: string | null
  price_minor: number | null
  cpu_hours: number | null
  ram_gib_hours: number | null
  cpu_hour_minor: number | null
  ram_gib_hour_minor: number | null
}

interface TemplateBuildLogsTable {
  build_id: string
  start_byte: Int8
  text: string
}

interface TemplateBuildStepsTable {
  organization_id: string
  cell_id: string
  key: string
  layer: string
  used_at: Date
}

interface TemplateBuildsTable {
  id: string
  organization_id: string
  project_id: string
  template_id: string
  operation_id: string
  kind: 'save_as_template' | 'draft' | 'recipe'
  spec: Json<object>
  capture_operation_id: string | null
  findings: JsonWithDefault<ColumnTypes['template_builds.findings']>
  version_id: string | null
  log_bytes: Int8WithDefault
  created_at: Date
}

interface TemplateCapturesTable {
  id: string
  version_id: string
  cell_id: string
  organization_id: string
  project_id: string
  state: 'wanted' | 'making' | 'ready' | 'failed'
  checkpoint_id: string | null
  engine: string | null
  agent_protocol: number | null
  resources: Json<object> | null
  size_bytes: Int8 | null
  error: Json<object> | null
  created_at: Date
  updated_at: Date
  used_at: Date
}

interface TemplateDraftStatesTable {
  id: string
  draft_id: string
  operation_id: string
  label: string | null
  layers: string[] | null
  created_at: Date
}

interface TemplateDraftsTable {
  id: string
  organization_id: string
  project_id: string
  template_id: string
  workspace_id: string
  base_version: number | null
  created_at: Date
  discarded_at: Date | null
}

interface TemplateUploadsTable {
  id: string
  organization_id: string
  project_id: string
  size_bytes: Int8
  sha256: string
  parts: JsonWithDefault<ColumnTypes['template_uploads.parts']>
  received_bytes: Int8WithDefault
  complete: Generated<boolean>
  created_at: Date
  used_at: Date
}

interface TemplateVersionsTable {
  id: string
  template_id: string
  version: number
  layered: boolean
  layers: string[]
  settings: Json<object>
  created_at: Date
  published_at: Date | null
  archived_at: Date | null
  egress: Json<object> | null
  description: string | null
  scan_findings: JsonWithDefault<ColumnTypes['template_versions.scan_findings']>
}

interface TemplatesTable {
  id: string
  organization_id: string | null
  slug: string
  created_at: Date
  archived_at: Date | null
  display_name: string | null
  description: string | null
  project_id: string | null
}

interface TreeKeysTable {
  workspace_id: string
  key: string
  fingerprint: Buffer
  revision: Int8
  answer: Json<object>
  created_at: Date
}

interface TreeRevisionsTable {
  workspace_id: string
  revision: Int8
  root: string | null
  superseded_at: Date
  entries: Int8 | null
  bytes: Int8 | null
  created_at: Date | null
  changes: Json<ColumnTypes['tree_revisions.changes']> | null
  made_by: Json<ColumnTypes['tree_revisions.made_by']> | null
}

interface TreesTable {
  workspace_id: string
  revision: Int8WithDefault
  root: string | null
  entries: Int8WithDefault
  bytes: Int8WithDefault
  created_at: Date
  updated_at: Date
  collected_at: Date | null
  store_id: string | null
  changes: Json<ColumnTypes['trees.changes']> | null
  made_by: Json<ColumnTypes['trees.made_by']> | null
  execution_id: string | null
}

interface UnnamedLayersTable {
  cell_id: string
  layer: string
  size_bytes: Int8
  since: Date
}

interface UsageCountersTable {
  workspace_id: string
  fence: Int8
  cpu_usec: Int8
  rx_bytes: Int8
  tx_bytes: Int8
  read_at: Date
  run: string | null
  monotonic_ms: Int8 | null
}

interface UsageEntriesTable {
  subject_kind: 'workspace' | 'volume'
  subject_id: string
  hour: Date
  organization_id: string
  project_id: string | null
  entry: number
  cpu_seconds: Int8WithDefault
  memory_gib_seconds: Int8WithDefault
  storage_gib_seconds: Int8WithDefault
  egress_bytes: Int8WithDefault
  ingress_bytes: Int8WithDefault
  volume_storage_gib_seconds: Int8WithDefault
  written_at: Date
}

interface UsageGrantDrawsTable {
  grant_id: string
  period_starts_at: Date
  meter_units: Int8
  drawn_at: Date
}

interface UsageGrantsTable {
  id: string
  organization_id: string
  allowance: 'cpu_hours' | 'ram_gib_hours'
  granted_meter_units: Int8
  note: Generated<string>
  created_at: Date
  expires_at: Date | null
  revoked_at: Date | null
}

interface UsageHoursTable {
  organization_id: string
  hour: Date
  project_id: string | null
  cpu_seconds: Int8WithDefault
  memory_gib_seconds: Int8WithDefault
  storage_gib_seconds: Int8WithDefault
  egress_bytes: Int8WithDefault
  ingress_bytes: Int8WithDefault
  volume_storage_gib_seconds: Int8WithDefault
}

interface UsageOpenHoursTable {
  organization_id: string
  hour: Date
  project_id: string | null
  cpu_seconds: Int8WithDefault
  memory_gib_seconds: Int8WithDefault
  storage_gib_seconds: Int8WithDefault
  egress_bytes: Int8WithDefault
  ingress_bytes: Int8WithDefault
  volume_storage_gib_seconds: Int8WithDefault
}

interface UsageSamplesTable {
  workspace_id: string
  hour: Date
  organization_id: string
  cpu_usec: Int8WithDefault
  memory_byte_ms: Generated<string>
  disk_byte_ms: Generated<string>
  rx_bytes: Int8WithDefault
  tx_bytes: Int8WithDefault
  sampled_ms: Int8WithDefault
  project_id: string | null
  checkpoint_byte_ms: Generated<string>
  is_open: Generated<boolean>
  entries: Generated<number>
  port_received_bytes: Int8WithDefault
  port_sent_bytes: Int8WithDefault
}

interface UsageStorageTable {
  workspace_id: string
  read_at: Date
  run: string
  monotonic_ms: Int8
  disk_read_at: Date | null
  disk_run: string | null
  disk_monotonic_ms: Int8 | null
}

interface VolumeAttachmentsTable {
  id: string
  workspace_id: string
  volume_id: string
  mount_path: string
  mode: 'read_write' | 'read_only'
  place: number
  state: 'attaching' | 'attached' | 'detaching'
  operation_id: string | null
  created_at: Date
  updated_at: Date
}

interface VolumeUsageReadingsTable {
  volume_id: string
  read_at: Date
  run: string
  monotonic_ms: Int8
}

interface VolumeUsageSamplesTable {
  volume_id: string
  hour: Date
  organization_id: string
  project_id: string
  stored_byte_ms: Generated<string>
  sampled_ms: Int8WithDefault
  is_open: Generated<boolean>
  entries: Generated<number>
}

interface VolumesTable {
  id: string
  organization_id: string
  project_id: string
  cell_id: string | null
  name: string
  quota_gib: number
  org_shared: boolean
  state: 'creating' | 'available' | 'deleting' | 'deleted' | 'failed'
  created_at: Date
  updated_at: Date
  deleted_at: Date | null
}

interface WorkspaceAuthoritiesTable {
  workspace_id: string
  authority_id: string
}

interface WorkspaceEgressTable {
  workspace_id: string
  epoch: Int8
  fence: Int8
  revision: string
  state: 'enforced' | 'failed'
  acknowledged_at: Date
}

interface WorkspaceHoldsTable {
  workspace_id: string
  operation_id: string
  gate: 'open' | 'read_only' | 'closed'
}

interface WorkspaceKeysTable {
  organization_id: string
  key: string
  workspace_id: string
  reusable: Generated<boolean>
  project_id: string
}

interface WorkspacePortsTable {
  id: string
  workspace_id: string
  port: number
  requests: Int8WithDefault
  received_bytes: Int8WithDefault
  sent_bytes: Int8WithDefault
  last_request_at: Date | null
  created_at: Date
}

interface WorkspaceSecretsTable {
  workspace_id: string
  project_id: string
  name: string
}

interface WorkspacesTable {
  id: string
  organization_id: string
  project_id: string
  key: string
  template_version_id: string
  observed_state: 'creating' | 'starting' | 'running' | 'suspending' | 'suspended' | 'resuming' | 'forking' | 'stopping' | 'failed' | 'deleting' | 'deleted'
  desired_state: 'running' | 'suspended' | 'deleted'
  pending_reason: string | null
  ended_reason: string | null
  lifetime: 'persistent' | 'session'
  mode: 'processful' | 'file_first'
  purpose: Generated<'standard' | 'template_draft' | 'template_test'>
  disk_layout: 'legacy' | 'layered'
  origin: Json<object> | null
  caps: JsonWithDefault<ColumnTypes['workspaces.caps']>
  ceiling_cpu_millis: number
  ceiling_memory_mib: number
  ceiling_disk_gib: number
  grant_cpu_millis: number | null
  grant_memory_mib: number | null
  grant_disk_gib: number | null
  inputs: JsonWithDefault<ColumnTypes['workspaces.inputs']>
  startup: Json<ColumnTypes['workspaces.startup']> | null
  tree_revision: Int8 | null
  cell_id: string | null
  ownership_epoch: Int8WithDefault
  disk: string | null
  checkpoint_id: string | null
  idle_policy: string | null
  active_at: Date
  tool_call_at: Date | null
  busy_until: Date | null
  keepalive_until: Date | null
  suspend_requested_at: Date | null
  suspend_after_seconds: number | null
  suspend_not_before: Date | null
  tokens_revoked_before: Date | null
  created_at: Date
  updated_at: Date
  deleted_at: Date | null
  idle_gaps: number[] | null
  idle_failures: Generated<number>
  idle_retry_at: Date | null
  residency: Generated<'resident' | 'hibernated' | 'restoring'>
  residency_fence: Int8WithDefault
  volumes: JsonWithDefault<ColumnTypes['workspaces.volumes']>
  background_seconds: number | null
  draft_state_id: string | null
  state_layers: string[] | null
  family_id: string | null
}
