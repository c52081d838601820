-- Generated from migrations/ by `npm run schema`. Behind each table: who may do what.

create table agent_sessions (
  id uuid not null,
  workspace_id uuid not null,
  principal_type text not null,
  principal_id uuid not null,
  agent_label text not null,
  created_at timestamp with time zone not null,
  last_used_at timestamp with time zone not null,
  UNIQUE (workspace_id, principal_type, principal_id, agent_label),
  PRIMARY KEY (id),
  FOREIGN KEY (workspace_id) REFERENCES workspaces(id),
  CHECK ((principal_type = ANY (ARRAY['api_key'::text, 'user'::text])))
); -- delete, insert, select to berth_api; update (last_used_at) to berth_api; delete to berth_cell; select (id, workspace_id, last_used_at) to berth_cell

create table api_key_uses (
  api_key_id uuid not null,
  last_used_at timestamp with time zone not null,
  PRIMARY KEY (api_key_id),
  FOREIGN KEY (api_key_id) REFERENCES api_keys(id)
); -- insert, select to berth_api; update (last_used_at) to berth_api

create table api_keys (
  id uuid not null,
  key_id text not null,
  secret_sha256 bytea not null,
  organization_id uuid not null,
  project_id uuid not null,
  name text default ''::text not null,
  tool_permissions text[] not null,
  created_at timestamp with time zone not null,
  expires_at timestamp with time zone,
  revoked_at timestamp with time zone,
  tools_changed_at timestamp with time zone,
  UNIQUE (key_id),
  PRIMARY KEY (id),
  FOREIGN KEY (organization_id) REFERENCES organizations(id),
  FOREIGN KEY (project_id) REFERENCES projects(id)
); -- insert, select to berth_api; update (name, tool_permissions, expires_at, revoked_at, tools_changed_at) to berth_api; select (id, tool_permissions, expires_at, revoked_at, tools_changed_at) to berth_cell

create table audit_chains (
  chain_id uuid not null,
  sequence bigint not null,
  sha256 bytea not null,
  dropped_sequence bigint not null,
  dropped_sha256 bytea not null,
  PRIMARY KEY (chain_id)
); -- insert, select to berth_api; update (sequence, sha256, dropped_sequence, dropped_sha256) to berth_api

create table audit_events (
  id uuid not null,
  created_at timestamp with time zone not null,
  organization_id uuid,
  project_id uuid,
  actor_kind text not null,
  actor_id uuid,
  actor_name text,
  action text not null,
  subject_kind text not null,
  subject_id text not null,
  request_id text,
  source_address text,
  details jsonb default '{}'::jsonb not null,
  sequence bigint,
  sha256 bytea,
  PRIMARY KEY (id),
  CHECK ((actor_kind = ANY (ARRAY['api_key'::text, 'user'::text, 'tool_token'::text, 'operator'::text, 'service'::text])))
); -- delete, select to berth_api; insert (id, created_at, organization_id, project_id, actor_kind, actor_id, actor_name, action, subject_kind, subject_id, request_id, source_address, details) to berth_api; update (sequence, sha256) to berth_api; insert (id, created_at, organization_id, project_id, actor_kind, actor_id, actor_name, action, subject_kind, subject_id, request_id, source_address, details) to berth_cell

create table authorities (
  id uuid not null,
  certificate text not null,
  key_id text not null,
  sealed_key text not null,
  created_at timestamp with time zone not null,
  PRIMARY KEY (id),
  FOREIGN KEY (key_id) REFERENCES sealing_keys(key_id)
); -- insert, select to berth_cell

create table cells (
  id uuid not null,
  name text not null,
  endpoint text not null,
  engine text,
  capacity_cpu_millis integer,
  capacity_memory_mib integer,
  capacity_disk_gib integer,
  created_at timestamp with time zone not null,
  seen_at timestamp with time zone,
  measured_at timestamp with time zone,
  UNIQUE (name),
  PRIMARY KEY (id)
); -- select to berth_api; insert, select to berth_cell; update (endpoint, engine, capacity_cpu_millis, capacity_memory_mib, capacity_disk_gib, seen_at, measured_at) to berth_cell

create table checkouts (
  id uuid not null,
  organization_id uuid not null,
  plan_id uuid not null,
  state text not null,
  session_id text,
  look_at timestamp with time zone not null,
  created_at timestamp with time zone not null,
  expires_at timestamp with time zone not null,
  UNIQUE (session_id),
  PRIMARY KEY (id),
  FOREIGN KEY (organization_id) REFERENCES organizations(id),
  FOREIGN KEY (plan_id) REFERENCES plans(id),
  CHECK ((state = ANY (ARRAY['pending'::text, 'completed'::text, 'expired'::text, 'superseded'::text])))
); -- delete, insert, select to berth_api; update (state, session_id, look_at) to berth_api

create table checkpoints (
  id uuid not null,
  workspace_id uuid not null,
  cell_id uuid not null,
  operation_id uuid not null,
  kind text not null,
  label text,
  epoch bigint not null,
  engine text not null,
  size_bytes bigint not null,
  resources jsonb not null,
  created_at timestamp with time zone not null,
  expires_at timestamp with time zone,
  deleted_at timestamp with time zone,
  disk_bytes bigint,
  PRIMARY KEY (id),
  FOREIGN KEY (cell_id) REFERENCES cells(id),
  FOREIGN KEY (workspace_id) REFERENCES workspaces(id),
  CHECK ((kind = ANY (ARRAY['suspend'::text, 'snapshot'::text, 'fork'::text, 'recovery'::text, 'parked'::text, 'layer'::text])))
); -- select to berth_api; update (deleted_at) to berth_api; delete, insert, select to berth_cell; update (operation_id, kind, expires_at) to berth_cell

create table egress_denials (
  workspace_id uuid not null,
  protocol text not null,
  target text not null,
  port integer not null,
  first_at timestamp with time zone not null,
  name text,
  address text,
  count bigint not null,
  last_at timestamp with time zone not null,
  PRIMARY KEY (workspace_id, protocol, target, port, first_at),
  FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE,
  CHECK ((protocol = ANY (ARRAY['tcp'::text, 'udp'::text, 'dns'::text, 'other'::text])))
); -- select to berth_api; delete, insert, select to berth_cell; update (name, count, last_at) to berth_cell

create table egress_versions (
  id uuid not null,
  organization_id uuid not null,
  project_id uuid not null,
  workspace_id uuid,
  version integer not null,
  mode text,
  rules jsonb default '[]'::jsonb not null,
  cidrs text[] default '{}'::text[] not null,
  created_by_type text not null,
  created_by_id uuid not null,
  created_at timestamp with time zone not null,
  PRIMARY KEY (id),
  FOREIGN KEY (organization_id) REFERENCES organizations(id),
  FOREIGN KEY (project_id) REFERENCES projects(id),
  FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE,
  CHECK (((mode IS NOT NULL) OR (workspace_id IS NOT NULL))),
  CHECK (((mode = 'allowlist'::text) OR ((rules = '[]'::jsonb) AND (cidrs = '{}'::text[])))),
  CHECK ((created_by_type = ANY (ARRAY['user'::text, 'api_key'::text]))),
  CHECK ((mode = ANY (ARRAY['allow_all'::text, 'allowlist'::text, 'deny_all'::text]))),
  CHECK ((version > 0))
); -- delete, insert, select to berth_api; select to berth_cell

create table email_tokens (
  token_sha256 bytea not null,
  person_id uuid not null,
  purpose text not null,
  email text not null,
  created_at timestamp with time zone not null,
  expires_at timestamp with time zone not null,
  used_at timestamp with time zone,
  PRIMARY KEY (token_sha256),
  FOREIGN KEY (person_id) REFERENCES people(id),
  CHECK ((purpose = ANY (ARRAY['verify_email'::text, 'reset_password'::text, 'change_email'::text])))
); -- delete, insert, select to berth_api; update (used_at) to berth_api

create table executions (
  workspace_id uuid not null,
  execution_id text not null,
  cell_id uuid not null,
  fingerprint text not null,
  state text default 'queued'::text not null,
  base_revision bigint not null,
  tree_revision bigint,
  exit_code integer,
  term_signal text,
  timed_out boolean default false not null,
  stdout bytea default '\x'::bytea not null,
  stderr bytea default '\x'::bytea not null,
  stdout_truncated boolean default false not null,
  stderr_truncated boolean default false not null,
  changed jsonb default '[]'::jsonb not null,
  changed_truncated boolean default false not null,
  timings jsonb default '{}'::jsonb not null,
  error jsonb,
  created_at timestamp with time zone not null,
  finished_at timestamp with time zone,
  argv text[],
  argv_truncated boolean default false not null,
  cwd text,
  PRIMARY KEY (workspace_id, execution_id),
  FOREIGN KEY (cell_id) REFERENCES cells(id),
  FOREIGN KEY (workspace_id) REFERENCES trees(workspace_id) ON DELETE CASCADE,
  CHECK (((tree_revision IS NOT NULL) = (state = 'succeeded'::text))),
  CHECK (((error IS NOT NULL) = (state = ANY (ARRAY['failed'::text, 'lost'::text])))),
  CHECK (((finished_at IS NULL) = (state = ANY (ARRAY['queued'::text, 'running'::text])))),
  CHECK ((execution_id ~ '^[A-Za-z0-9][A-Za-z0-9._:-]{7,127}$'::text)),
  CHECK ((state = ANY (ARRAY['queued'::text, 'running'::text, 'succeeded'::text, 'failed'::text, 'lost'::text])))
); -- delete, insert, select to berth_cell; update (state, tree_revision, exit_code, term_signal, timed_out, stdout, stderr, stdout_truncated, stderr_truncated, changed, changed_truncated, timings, error, finished_at) to berth_cell

create table export_parts (
  export_id uuid not null,
  attempt integer not null,
  number integer not null,
  bytes bytea not null,
  PRIMARY KEY (export_id, attempt, number),
  FOREIGN KEY (export_id) REFERENCES exports(id) ON DELETE CASCADE
); -- delete, insert, select to berth_api

create table exports (
  id uuid not null,
  organization_id uuid,
  requested_by uuid not null,
  state text not null,
  failure text,
  attempt integer default 0 not null,
  next_try_at timestamp with time zone not null,
  size_bytes bigint,
  sha256 text,
  created_at timestamp with time zone not null,
  completed_at timestamp with time zone,
  expires_at timestamp with time zone,
  PRIMARY KEY (id),
  FOREIGN KEY (organization_id) REFERENCES organizations(id),
  FOREIGN KEY (requested_by) REFERENCES people(id),
  CHECK (((state = 'failed'::text) = (failure IS NOT NULL))),
  CHECK ((failure = ANY (ARRAY['export_too_large'::text, 'internal_error'::text]))),
  CHECK ((state = ANY (ARRAY['queued'::text, 'running'::text, 'ready'::text, 'failed'::text, 'expired'::text])))
); -- delete, insert, select to berth_api; update (state, failure, attempt, next_try_at, size_bytes, sha256, completed_at, expires_at) to berth_api

create table feedback (
  id uuid not null,
  received_at timestamp with time zone not null,
  organization_id uuid,
  principal_type text not null,
  principal_id uuid not null,
  category text not null,
  message text,
  message_sha256 bytea not null,
  context jsonb default '{}'::jsonb not null,
  duplicate_of uuid,
  PRIMARY KEY (id),
  FOREIGN KEY (duplicate_of) REFERENCES feedback(id) ON DELETE CASCADE,
  FOREIGN KEY (organization_id) REFERENCES organizations(id),
  CHECK ((category = ANY (ARRAY['bug'::text, 'confusing'::text, 'missing'::text, 'idea'::text, 'praise'::text, 'other'::text]))),
  CHECK ((principal_type = ANY (ARRAY['api_key'::text, 'user'::text])))
); -- delete, insert to berth_api; select (id, received_at, organization_id, principal_id, message_sha256, duplicate_of) to berth_api

create table idempotency_entries (
  principal text not null,
  route text not null,
  key text not null,
  fingerprint bytea not null,
  outcome jsonb not null,
  created_at timestamp with time zone not null,
  PRIMARY KEY (principal, route, key)
); -- delete, insert, select to berth_api; update (fingerprint, outcome, created_at) to berth_api

create table installation (
  id uuid default gen_random_uuid() not null,
  is_only boolean default true not null,
  UNIQUE (is_only),
  PRIMARY KEY (id),
  CHECK (is_only)
); -- select (id) to berth_api; select (id) to berth_cell

create table invitations (
  id uuid not null,
  organization_id uuid not null,
  email text not null,
  role text not null,
  invited_by uuid,
  token_sha256 bytea,
  created_at timestamp with time zone not null,
  expires_at timestamp with time zone not null,
  accepted_at timestamp with time zone,
  revoked_at timestamp with time zone,
  UNIQUE (token_sha256),
  PRIMARY KEY (id),
  FOREIGN KEY (invited_by) REFERENCES people(id),
  FOREIGN KEY (organization_id) REFERENCES organizations(id),
  CHECK ((role = ANY (ARRAY['owner'::text, 'admin'::text, 'member'::text, 'billing'::text])))
); -- delete, insert, select to berth_api; update (token_sha256, expires_at, accepted_at, revoked_at) to berth_api

create table invoices (
  id uuid not null,
  organization_id uuid not null,
  number text not null,
  state text not null,
  period_starts_at timestamp with time zone not null,
  period_ends_at timestamp with time zone not null,
  currency text not null,
  lines jsonb not null,
  total_minor bigint not null,
  issued_at timestamp with time zone not null,
  due_at timestamp with time zone not null,
  paid_at timestamp with time zone,
  voided_at timestamp with time zone,
  UNIQUE (number),
  UNIQUE (organization_id, period_starts_at, currency),
  PRIMARY KEY (id),
  FOREIGN KEY (organization_id) REFERENCES organizations(id),
  CHECK ((currency ~ '^[A-Z]{3}$'::text)),
  CHECK ((state = ANY (ARRAY['open'::text, 'paid'::text, 'void'::text]))),
  CHECK ((total_minor > 0))
); -- insert, select to berth_api; update (state, paid_at, voided_at) to berth_api

create table layer_directories (
  layer text not null,
  path_sha256 bytea not null,
  entries jsonb not null,
  PRIMARY KEY (layer, path_sha256),
  FOREIGN KEY (layer) REFERENCES layer_lists(layer) ON DELETE CASCADE
); -- select to berth_api; delete, insert, select to berth_cell

create table layer_lists (
  layer text not null,
  state text not null,
  reached text,
  updated_at timestamp with time zone not null,
  PRIMARY KEY (layer),
  CHECK ((state = ANY (ARRAY['wanted'::text, 'ready'::text, 'unavailable'::text])))
); -- insert, select to berth_api; update (state, updated_at) to berth_api; delete, select to berth_cell; update (state, reached, updated_at) to berth_cell

create table machines (
  kind text not null,
  id uuid not null,
  workspace_id uuid,
  organization_id uuid not null,
  project_id uuid not null,
  cell_id uuid not null,
  grant_cpu_millis integer not null,
  grant_memory_mib integer not null,
  grant_disk_gib integer not null,
  epoch bigint not null,
  fence bigint default 0 not null,
  disk text,
  checkpoint_id uuid,
  residency text default 'resident'::text not null,
  PRIMARY KEY (kind, id),
  FOREIGN KEY (cell_id) REFERENCES cells(id),
  FOREIGN KEY (organization_id) REFERENCES organizations(id),
  FOREIGN KEY (project_id) REFERENCES projects(id),
  FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE,
  CHECK (((workspace_id IS NOT NULL) OR (kind = 'build'::text))),
  CHECK (((kind <> 'workspace'::text) OR (workspace_id = id))),
  CHECK ((kind = ANY (ARRAY['workspace'::text, 'execution'::text, 'build'::text, 'test_instance'::text]))),
  CHECK ((residency = ANY (ARRAY['resident'::text, 'hibernated'::text, 'restoring'::text])))
); -- delete, insert, select to berth_cell; update (cell_id, grant_cpu_millis, grant_memory_mib, grant_disk_gib, fence) to berth_cell

create table mails (
  id uuid not null,
  kind text not null,
  email text not null,
  person_id uuid,
  invitation_id uuid,
  created_at timestamp with time zone not null,
  next_try_at timestamp with time zone not null,
  tries integer default 0 not null,
  sent_at timestamp with time zone,
  given_up_at timestamp with time zone,
  last_error text,
  spend_alert_id uuid,
  PRIMARY KEY (id)
); -- delete, insert, select to berth_api; update (next_try_at, tries, sent_at, given_up_at, last_error) to berth_api

create table memberships (
  organization_id uuid not null,
  person_id uuid not null,
  role text not null,
  created_at timestamp with time zone not null,
  PRIMARY KEY (organization_id, person_id),
  FOREIGN KEY (organization_id) REFERENCES organizations(id),
  FOREIGN KEY (person_id) REFERENCES people(id),
  CHECK ((role = ANY (ARRAY['owner'::text, 'admin'::text, 'member'::text, 'billing'::text])))
); -- delete, insert, select to berth_api; update (role) to berth_api; select (organization_id, person_id, role) to berth_cell

create table operations (
  id uuid not null,
  organization_id uuid not null,
  project_id uuid,
  workspace_id uuid,
  source_workspace_id uuid,
  kind text not null,
  state text not null,
  state_reason text,
  input jsonb default '{}'::jsonb not null,
  result jsonb,
  error jsonb,
  created_at timestamp with time zone not null,
  updated_at timestamp with time zone not null,
  started_at timestamp with time zone,
  completed_at timestamp with time zone,
  deadline_at timestamp with time zone,
  cell_id uuid,
  attempt integer default 0 not null,
  fence bigint default 0 not null,
  step text,
  progress jsonb default '{}'::jsonb not null,
  subject_kind text default 'workspace'::text not null,
  subject_id uuid not null,
  requested_by jsonb,
  PRIMARY KEY (id),
  FOREIGN KEY (cell_id) REFERENCES cells(id),
  FOREIGN KEY (organization_id) REFERENCES organizations(id),
  FOREIGN KEY (project_id) REFERENCES projects(id),
  FOREIGN KEY (source_workspace_id) REFERENCES workspaces(id),
  FOREIGN KEY (workspace_id) REFERENCES workspaces(id),
  CHECK (((completed_at IS NULL) = (state = ANY (ARRAY['queued'::text, 'capacity_pending'::text, 'running'::text])))),
  CHECK (((subject_kind <> 'workspace'::text) OR (subject_id = workspace_id))),
  CHECK ((kind = ANY (ARRAY['open'::text, 'suspend'::text, 'resume'::text, 'fork'::text, 'snapshot'::text, 'restore'::text, 'adopt'::text, 'delete'::text, 'reset'::text, 'layer_snapshot'::text, 'volume_create'::text, 'volume_delete'::text, 'volume_attach'::text, 'volume_detach'::text, 'template_build'::text, 'move'::text]))),
  CHECK ((state = ANY (ARRAY['queued'::text, 'capacity_pending'::text, 'running'::text, 'succeeded'::text, 'failed'::text, 'canceled'::text])))
); -- insert, select to berth_api; update (state, state_reason, result, error, updated_at, started_at, completed_at) to berth_api; delete, insert, select to berth_cell; update (source_workspace_id, state, state_reason, result, error, updated_at, started_at, completed_at, deadline_at, cell_id, attempt, fence, step, progress) to berth_cell

create table organizations (
  id uuid not null,
  name text not null,
  slug text not null,
  plan_id uuid not null,
  allowance_exhausted text,
  created_at timestamp with time zone not null,
  refuses_starts text,
  grace_until timestamp with time zone,
  allowance jsonb,
  deleting_at timestamp with time zone,
  deleted_at timestamp with time zone,
  billed_through timestamp with time zone,
  payment_refuses_starts text,
  payment_grace_until timestamp with time zone,
  UNIQUE (slug),
  PRIMARY KEY (id),
  FOREIGN KEY (plan_id) REFERENCES plans(id),
  CHECK ((allowance_exhausted = ANY (ARRAY['allowance_used'::text, 'overage_paused'::text, 'spend_cap_reached'::text]))),
  CHECK ((payment_refuses_starts = ANY (ARRAY['payment_past_due'::text, 'unpaid'::text]))),
  CHECK ((refuses_starts = ANY (ARRAY['no_plan'::text, 'payment_past_due'::text, 'unpaid'::text, 'operator_hold'::text])))
); -- insert, select to berth_api; update (name, plan_id, deleting_at, deleted_at, billed_through, payment_refuses_starts, payment_grace_until) to berth_api; select (id, plan_id, allowance_exhausted, refuses_starts, grace_until, allowance, deleted_at, payment_refuses_starts, payment_grace_until) to berth_cell; update (allowance_exhausted, allowance) to berth_cell

create table overage_periods (
  organization_id uuid not null,
  period_starts_at timestamp with time zone not null,
  spend_cap_minor integer,
  PRIMARY KEY (organization_id, period_starts_at),
  FOREIGN KEY (organization_id) REFERENCES organizations(id)
); -- insert, select to berth_api; update (spend_cap_minor) to berth_api

create table payment_accounts (
  organization_id uuid not null,
  customer_id text not null,
  subscription_id text,
  plan_id uuid,
  plan_before_id uuid,
  look_at timestamp with time zone not null,
  created_at timestamp with time zone not null,
  UNIQUE (customer_id),
  UNIQUE (subscription_id),
  PRIMARY KEY (organization_id),
  FOREIGN KEY (organization_id) REFERENCES organizations(id),
  FOREIGN KEY (plan_before_id) REFERENCES plans(id),
  FOREIGN KEY (plan_id) REFERENCES plans(id),
  CHECK (((subscription_id IS NULL) = (plan_id IS NULL)))
); -- insert, select to berth_api; update (subscription_id, plan_id, plan_before_id, look_at) to berth_api

create table payment_events (
  id text not null,
  kind text not null,
  object_id text not null,
  received_at timestamp with time zone not null,
  applied_at timestamp with time zone,
  next_try_at timestamp with time zone not null,
  tries integer default 0 not null,
  last_error text,
  PRIMARY KEY (id),
  CHECK ((kind = ANY (ARRAY['checkout'::text, 'subscription'::text, 'invoice'::text])))
); -- delete, insert, select to berth_api; update (applied_at, next_try_at, tries, last_error) to berth_api

create table payment_invoices (
  invoice_id uuid not null,
  remote_id text,
  pushed_at timestamp with time zone,
  settled_at timestamp with time zone,
  next_try_at timestamp with time zone not null,
  tries integer default 0 not null,
  last_error text,
  UNIQUE (remote_id),
  PRIMARY KEY (invoice_id),
  FOREIGN KEY (invoice_id) REFERENCES invoices(id)
); -- insert, select to berth_api; update (remote_id, pushed_at, settled_at, next_try_at, tries, last_error) to berth_api

create table people (
  id uuid not null,
  email text not null,
  email_verified boolean default false not null,
  display_name text,
  mfa_enabled boolean default false not null,
  created_at timestamp with time zone not null,
  deleted_at timestamp with time zone,
  PRIMARY KEY (id)
); -- insert, select to berth_api; update (email, email_verified, display_name, mfa_enabled, deleted_at) to berth_api

create table person_credentials (
  person_id uuid not null,
  password_hash text,
  password_changed_at timestamp with time zone,
  totp_sealed bytea,
  totp_step bigint default '-1'::integer not null,
  totp_pending_sealed bytea,
  totp_pending_at timestamp with time zone,
  mfa_failures integer default 0 not null,
  mfa_locked_until timestamp with time zone,
  PRIMARY KEY (person_id),
  FOREIGN KEY (person_id) REFERENCES people(id)
); -- delete, insert, select to berth_api; update (password_hash, password_changed_at, totp_sealed, totp_step, totp_pending_sealed, totp_pending_at, mfa_failures, mfa_locked_until) to berth_api

create table person_sessions (
  id uuid not null,
  person_id uuid not null,
  token_sha256 bytea not null,
  created_at timestamp with time zone not null,
  last_used_at timestamp with time zone not null,
  expires_at timestamp with time zone not null,
  revoked_at timestamp with time zone,
  mfa_pending boolean default false not null,
  stepped_up_at timestamp with time zone,
  device text,
  address text,
  UNIQUE (token_sha256),
  PRIMARY KEY (id),
  FOREIGN KEY (person_id) REFERENCES people(id)
); -- delete, insert, select to berth_api; update (token_sha256, last_used_at, revoked_at, mfa_pending, stepped_up_at, device, address) to berth_api; select (id, person_id, revoked_at) to berth_cell

create table plans (
  id uuid not null,
  slug text not null,
  name text not null,
  concurrent_workspaces integer,
  cpu_millis integer,
  memory_mib integer,
  disk_gib integer,
  refuses_starts text,
  created_at timestamp with time zone not null,
  missing_limits text[] default '{}'::text[] not null,
  shared_volumes_max integer,
  shared_volume_gib_max integer,
  volume_attachments_per_workspace integer,
  missing_volume_limits text[] default '{}'::text[] not null,
  cpu_hours integer,
  ram_gib_hours integer,
  is_listed boolean default false not null,
  currency text,
  price_minor integer,
  cpu_hour_minor integer,
  ram_gib_hour_minor integer,
  concurrent_template_builds integer,
  UNIQUE (slug),
  PRIMARY KEY (id),
  CHECK (((concurrent_workspaces IS NULL) OR (NOT ('concurrent_workspaces'::text = ANY (missing_limits))))),
  CHECK (((cpu_millis IS NULL) OR (NOT ('cpu_millis'::text = ANY (missing_limits))))),
  CHECK (((memory_mib IS NULL) OR (NOT ('memory_mib'::text = ANY (missing_limits))))),
  CHECK (((disk_gib IS NULL) OR (NOT ('disk_gib'::text = ANY (missing_limits))))),
  CHECK (((currency IS NOT NULL) OR ((price_minor IS NULL) AND (cpu_hour_minor IS NULL) AND (ram_gib_hour_minor IS NULL)))),
  CHECK ((concurrent_template_builds >= 0)),
  CHECK ((concurrent_workspaces >= 0)),
  CHECK ((cpu_hour_minor >= 0)),
  CHECK ((cpu_hours >= 0)),
  CHECK ((cpu_millis > 0)),
  CHECK ((currency ~ '^[A-Z]{3}$'::text)),
  CHECK ((disk_gib > 0)),
  CHECK ((memory_mib > 0)),
  CHECK ((missing_limits <@ ARRAY['concurrent_workspaces'::text, 'cpu_millis'::text, 'memory_mib'::text, 'disk_gib'::text])),
  CHECK ((missing_volume_limits <@ ARRAY['shared_volumes_max'::text, 'shared_volume_gib_max'::text])),
  CHECK ((price_minor >= 0)),
  CHECK ((ram_gib_hour_minor >= 0)),
  CHECK ((ram_gib_hours >= 0)),
  CHECK ((refuses_starts = ANY (ARRAY['no_plan'::text, 'payment_past_due'::text, 'unpaid'::text, 'operator_hold'::text]))),
  CHECK ((shared_volume_gib_max > 0)),
  CHECK ((shared_volumes_max >= 0)),
  CHECK ((volume_attachments_per_workspace >= 0))
); -- select to berth_api; select (id, slug, concurrent_workspaces, cpu_millis, memory_mib, disk_gib, refuses_starts, missing_limits, cpu_hours, ram_gib_hours, currency, price_minor, cpu_hour_minor, ram_gib_hour_minor) to berth_cell

create table port_credentials (
  id uuid not null,
  port_id uuid not null,
  kind text not null,
  sha256 bytea not null,
  path text,
  created_at timestamp with time zone not null,
  expires_at timestamp with time zone,
  UNIQUE (sha256),
  PRIMARY KEY (id),
  FOREIGN KEY (port_id) REFERENCES workspace_ports(id) ON DELETE CASCADE,
  CHECK (((kind = 'link'::text) = (path IS NOT NULL))),
  CHECK (((kind = 'callback'::text) = (expires_at IS NULL))),
  CHECK ((kind = ANY (ARRAY['token'::text, 'link'::text, 'cookie'::text, 'callback'::text])))
); -- delete, insert, select to berth_api; delete, select to berth_cell

create table projects (
  id uuid not null,
  organization_id uuid not null,
  name text not null,
  slug text not null,
  created_at timestamp with time zone not null,
  UNIQUE (organization_id, slug),
  PRIMARY KEY (id),
  FOREIGN KEY (organization_id) REFERENCES organizations(id)
); -- insert, select to berth_api; update (name) to berth_api

create table rate_buckets (
  name text not null,
  tokens double precision not null,
  updated_at timestamp with time zone not null,
  PRIMARY KEY (name)
); -- delete, insert, select to berth_api; update (tokens, updated_at) to berth_api

create table recovery_codes (
  person_id uuid not null,
  code_sha256 bytea not null,
  created_at timestamp with time zone not null,
  used_at timestamp with time zone,
  PRIMARY KEY (person_id, code_sha256),
  FOREIGN KEY (person_id) REFERENCES people(id)
); -- delete, insert, select to berth_api; update (used_at) to berth_api

create table sealing_keys (
  key_id text not null,
  public_jwk jsonb not null,
  created_at timestamp with time zone not null,
  PRIMARY KEY (key_id)
); -- select to berth_api; insert, select to berth_cell

create table secret_versions (
  id uuid not null,
  secret_id uuid not null,
  version integer not null,
  created_at timestamp with time zone not null,
  erased_at timestamp with time zone,
  key_id text,
  wrapped_key text,
  ciphertext bytea,
  UNIQUE (secret_id, version),
  PRIMARY KEY (id),
  FOREIGN KEY (key_id) REFERENCES sealing_keys(key_id),
  FOREIGN KEY (secret_id) REFERENCES secrets(id),
  CHECK (((erased_at IS NULL) = (key_id IS NOT NULL))),
  CHECK (((key_id IS NULL) = (wrapped_key IS NULL))),
  CHECK (((key_id IS NULL) = (ciphertext IS NULL))),
  CHECK ((version > 0))
); -- insert to berth_api; select (id, secret_id, version, created_at, erased_at, key_id) to berth_api; update (erased_at, key_id, wrapped_key, ciphertext) to berth_api; select (secret_id, version, key_id, wrapped_key, ciphertext) to berth_cell

create table secrets (
  id uuid not null,
  organization_id uuid not null,
  project_id uuid,
  name text not null,
  description text,
  allowed_project_ids uuid[],
  allowed_workspace_ids uuid[],
  allowed_tools text[] not null,
  version integer not null,
  created_at timestamp with time zone not null,
  updated_at timestamp with time zone not null,
  deleted_at timestamp with time zone,
  hosts jsonb,
  PRIMARY KEY (id),
  FOREIGN KEY (organization_id) REFERENCES organizations(id),
  FOREIGN KEY (project_id) REFERENCES projects(id),
  CHECK (((project_id IS NULL) OR (allowed_project_ids IS NULL)))
); -- insert, select to berth_api; update (description, allowed_project_ids, allowed_workspace_ids, allowed_tools, version, updated_at, deleted_at, hosts) to berth_api; select to berth_cell

create table service_keys (
  purpose text not null,
  key_id text not null,
  created_at timestamp with time zone not null,
  check_sha256 bytea,
  retired_at timestamp with time zone,
  PRIMARY KEY (purpose, key_id),
  CHECK ((key_id ~ '^[0-9a-f]{8}$'::text)),
  CHECK ((purpose = ANY (ARRAY['cursor'::text, 'idempotency'::text])))
); -- insert, select to berth_api; update (check_sha256, retired_at) to berth_api

create table signing_keys (
  kid text not null,
  public_jwk jsonb not null,
  created_at timestamp with time zone not null,
  retired_at timestamp with time zone,
  PRIMARY KEY (kid)
); -- insert, select to berth_api; select to berth_cell

create table spend_alert_settings (
  organization_id uuid not null,
  thresholds_percent integer[] not null,
  changed_at timestamp with time zone not null,
  PRIMARY KEY (organization_id),
  FOREIGN KEY (organization_id) REFERENCES organizations(id)
); -- insert, select to berth_api; update (thresholds_percent, changed_at) to berth_api; select to berth_cell

create table spend_alerts (
  id uuid not null,
  organization_id uuid not null,
  period_starts_at timestamp with time zone not null,
  subject text not null,
  threshold_percent integer not null,
  reached_at timestamp with time zone not null,
  mailed_at timestamp with time zone,
  UNIQUE (organization_id, period_starts_at, subject, threshold_percent),
  PRIMARY KEY (id),
  FOREIGN KEY (organization_id) REFERENCES organizations(id),
  CHECK ((subject = ANY (ARRAY['cpu_hours'::text, 'ram_gib_hours'::text, 'spend_cap'::text]))),
  CHECK ((threshold_percent > 0))
); -- select to berth_api; update (mailed_at) to berth_api; insert, select to berth_cell

create table spend_policies (
  organization_id uuid not null,
  version integer not null,
  overage_enabled boolean not null,
  spend_cap_minor integer,
  enabled_in timestamp with time zone,
  changed_at timestamp with time zone not null,
  PRIMARY KEY (organization_id),
  FOREIGN KEY (organization_id) REFERENCES organizations(id),
  CHECK (((spend_cap_minor IS NOT NULL) OR (NOT overage_enabled))),
  CHECK ((spend_cap_minor >= 0)),
  CHECK ((version > 0))
); -- insert, select to berth_api; update (version, overage_enabled, spend_cap_minor, enabled_in, changed_at) to berth_api; select to berth_cell

create table subscription_changes (
  organization_id uuid not null,
  changed_at timestamp with time zone not null,
  plan text not null,
  currency text,
  price_minor integer,
  cpu_hours integer,
  ram_gib_hours integer,
  cpu_hour_minor integer,
  ram_gib_hour_minor integer,
  FOREIGN KEY (organization_id) REFERENCES organizations(id)
); -- insert, select to berth_api

create table template_build_logs (
  build_id uuid not null,
  start_byte bigint not null,
  text text not null,
  PRIMARY KEY (build_id, start_byte),
  FOREIGN KEY (build_id) REFERENCES template_builds(id) ON DELETE CASCADE
); -- select to berth_api; delete, insert, select to berth_cell

create table template_build_steps (
  organization_id uuid not null,
  cell_id uuid not null,
  key text not null,
  layer text not null,
  used_at timestamp with time zone not null,
  PRIMARY KEY (organization_id, cell_id, key),
  FOREIGN KEY (cell_id) REFERENCES cells(id),
  FOREIGN KEY (organization_id) REFERENCES organizations(id)
); -- delete, insert, select to berth_cell; update (layer, used_at) to berth_cell

create table template_builds (
  id uuid not null,
  organization_id uuid not null,
  project_id uuid not null,
  template_id uuid not null,
  operation_id uuid not null,
  kind text not null,
  spec jsonb not null,
  capture_operation_id uuid,
  findings jsonb default '[]'::jsonb not null,
  version_id uuid,
  log_bytes bigint default 0 not null,
  created_at timestamp with time zone not null,
  UNIQUE (operation_id),
  PRIMARY KEY (id),
  FOREIGN KEY (organization_id) REFERENCES organizations(id),
  FOREIGN KEY (project_id) REFERENCES projects(id),
  FOREIGN KEY (template_id) REFERENCES templates(id) ON DELETE CASCADE,
  FOREIGN KEY (version_id) REFERENCES template_versions(id) ON DELETE SET NULL,
  CHECK ((kind = ANY (ARRAY['save_as_template'::text, 'draft'::text, 'recipe'::text])))
); -- insert, select to berth_api; select to berth_cell; update (spec, findings, version_id, log_bytes) to berth_cell

create table template_captures (
  id uuid not null,
  version_id uuid not null,
  cell_id uuid not null,
  organization_id uuid not null,
  project_id uuid not null,
  state text not null,
  checkpoint_id uuid,
  engine text,
  agent_protocol integer,
  resources jsonb,
  size_bytes bigint,
  error jsonb,
  created_at timestamp with time zone not null,
  updated_at timestamp with time zone not null,
  used_at timestamp with time zone not null,
  UNIQUE (version_id, cell_id),
  PRIMARY KEY (id),
  FOREIGN KEY (cell_id) REFERENCES cells(id),
  FOREIGN KEY (organization_id) REFERENCES organizations(id),
  FOREIGN KEY (project_id) REFERENCES projects(id),
  FOREIGN KEY (version_id) REFERENCES template_versions(id) ON DELETE CASCADE,
  CHECK (((state = 'ready'::text) = (checkpoint_id IS NOT NULL))),
  CHECK (((state = 'failed'::text) = (error IS NOT NULL))),
  CHECK ((state = ANY (ARRAY['wanted'::text, 'making'::text, 'ready'::text, 'failed'::text])))
); -- select to berth_api; delete, insert, select to berth_cell; update (state, checkpoint_id, engine, agent_protocol, resources, size_bytes, error, updated_at, used_at) to berth_cell

create table template_draft_states (
  id uuid not null,
  draft_id uuid not null,
  operation_id uuid not null,
  label text,
  layers text[],
  created_at timestamp with time zone not null,
  UNIQUE (operation_id),
  PRIMARY KEY (id),
  FOREIGN KEY (draft_id) REFERENCES template_drafts(id) ON DELETE CASCADE
); -- insert, select to berth_api; select to berth_cell; update (layers) to berth_cell

create table template_drafts (
  id uuid not null,
  organization_id uuid not null,
  project_id uuid not null,
  template_id uuid not null,
  workspace_id uuid not null,
  base_version integer,
  created_at timestamp with time zone not null,
  discarded_at timestamp with time zone,
  UNIQUE (workspace_id),
  PRIMARY KEY (id),
  FOREIGN KEY (organization_id) REFERENCES organizations(id),
  FOREIGN KEY (project_id) REFERENCES projects(id),
  FOREIGN KEY (template_id) REFERENCES templates(id) ON DELETE CASCADE,
  FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE
); -- insert, select to berth_api; update (discarded_at) to berth_api; select to berth_cell

create table template_uploads (
  id uuid not null,
  organization_id uuid not null,
  project_id uuid not null,
  size_bytes bigint not null,
  sha256 text not null,
  parts jsonb default '[]'::jsonb not null,
  received_bytes bigint default 0 not null,
  complete boolean default false not null,
  created_at timestamp with time zone not null,
  used_at timestamp with time zone not null,
  PRIMARY KEY (id),
  FOREIGN KEY (organization_id) REFERENCES organizations(id),
  FOREIGN KEY (project_id) REFERENCES projects(id),
  CHECK ((size_bytes > 0))
); -- delete, insert, select to berth_api; update (parts, received_bytes, complete, used_at) to berth_api; select to berth_cell

create table template_versions (
  id uuid not null,
  template_id uuid not null,
  version integer not null,
  layered boolean not null,
  layers text[] not null,
  settings jsonb not null,
  created_at timestamp with time zone not null,
  published_at timestamp with time zone,
  archived_at timestamp with time zone,
  egress jsonb,
  description text,
  scan_findings jsonb default '[]'::jsonb not null,
  UNIQUE (template_id, version),
  PRIMARY KEY (id),
  FOREIGN KEY (template_id) REFERENCES templates(id),
  CHECK ((version > 0))
); -- select to berth_api; update (published_at, archived_at) to berth_api; insert, select to berth_cell

create table templates (
  id uuid not null,
  organization_id uuid,
  slug text not null,
  created_at timestamp with time zone not null,
  archived_at timestamp with time zone,
  display_name text,
  description text,
  project_id uuid,
  UNIQUE NULLS NOT DISTINCT (organization_id, slug),
  PRIMARY KEY (id),
  FOREIGN KEY (organization_id) REFERENCES organizations(id),
  FOREIGN KEY (project_id) REFERENCES projects(id)
); -- insert, select to berth_api; update (archived_at) to berth_api; select to berth_cell

create table tree_keys (
  workspace_id uuid not null,
  key text not null,
  fingerprint bytea not null,
  revision bigint not null,
  answer jsonb not null,
  created_at timestamp with time zone not null,
  PRIMARY KEY (workspace_id, key),
  FOREIGN KEY (workspace_id) REFERENCES trees(workspace_id) ON DELETE CASCADE
); -- delete, insert, select to berth_cell

create table tree_revisions (
  workspace_id uuid not null,
  revision bigint not null,
  root text,
  superseded_at timestamp with time zone not null,
  entries bigint,
  bytes bigint,
  created_at timestamp with time zone,
  changes jsonb,
  made_by jsonb,
  PRIMARY KEY (workspace_id, revision),
  FOREIGN KEY (workspace_id) REFERENCES trees(workspace_id) ON DELETE CASCADE
); -- select to berth_api; delete, insert, select to berth_cell

create table trees (
  workspace_id uuid not null,
  revision bigint default 0 not null,
  root text,
  entries bigint default 0 not null,
  bytes bigint default 0 not null,
  created_at timestamp with time zone not null,
  updated_at timestamp with time zone not null,
  collected_at timestamp with time zone,
  store_id uuid,
  changes jsonb,
  made_by jsonb,
  execution_id text,
  PRIMARY KEY (workspace_id),
  FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE,
  CHECK ((revision >= 0)),
  CHECK ((root ~ '^[0-9a-f]{64}$'::text)),
  CHECK (((root IS NOT NULL) OR (revision = 0)))
); -- insert, select to berth_api; delete, select to berth_cell; update (revision, root, entries, bytes, updated_at, collected_at, changes, made_by, execution_id) to berth_cell

create table unnamed_layers (
  cell_id uuid not null,
  layer text not null,
  size_bytes bigint not null,
  since timestamp with time zone not null,
  PRIMARY KEY (cell_id, layer),
  FOREIGN KEY (cell_id) REFERENCES cells(id)
); -- delete, insert, select to berth_cell

create table usage_counters (
  workspace_id uuid not null,
  fence bigint not null,
  cpu_usec bigint not null,
  rx_bytes bigint not null,
  tx_bytes bigint not null,
  read_at timestamp with time zone not null,
  run uuid,
  monotonic_ms bigint,
  PRIMARY KEY (workspace_id, fence)
); -- delete, insert, select to berth_cell; update (cpu_usec, rx_bytes, tx_bytes, read_at, run, monotonic_ms) to berth_cell

create table usage_entries (
  subject_kind text not null,
  subject_id uuid not null,
  hour timestamp with time zone not null,
  organization_id uuid not null,
  project_id uuid,
  entry integer not null,
  cpu_seconds bigint default 0 not null,
  memory_gib_seconds bigint default 0 not null,
  storage_gib_seconds bigint default 0 not null,
  egress_bytes bigint default 0 not null,
  ingress_bytes bigint default 0 not null,
  volume_storage_gib_seconds bigint default 0 not null,
  written_at timestamp with time zone not null,
  UNIQUE NULLS NOT DISTINCT (subject_id, hour, organization_id, project_id, entry),
  FOREIGN KEY (organization_id) REFERENCES organizations(id),
  FOREIGN KEY (project_id) REFERENCES projects(id),
  CHECK ((entry >= 0)),
  CHECK ((subject_kind = ANY (ARRAY['workspace'::text, 'volume'::text])))
); -- select to berth_api; insert, select to berth_cell

create table usage_grant_draws (
  grant_id uuid not null,
  period_starts_at timestamp with time zone not null,
  meter_units bigint not null,
  drawn_at timestamp with time zone not null,
  PRIMARY KEY (grant_id, period_starts_at),
  FOREIGN KEY (grant_id) REFERENCES usage_grants(id),
  CHECK ((meter_units > 0))
); -- insert, select to berth_api; update (meter_units, drawn_at) to berth_api; insert, select to berth_cell; update (meter_units, drawn_at) to berth_cell

create table usage_grants (
  id uuid not null,
  organization_id uuid not null,
  allowance text not null,
  granted_meter_units bigint not null,
  note text default ''::text not null,
  created_at timestamp with time zone not null,
  expires_at timestamp with time zone,
  revoked_at timestamp with time zone,
  PRIMARY KEY (id),
  FOREIGN KEY (organization_id) REFERENCES organizations(id),
  CHECK ((allowance = ANY (ARRAY['cpu_hours'::text, 'ram_gib_hours'::text]))),
  CHECK ((granted_meter_units > 0))
); -- select to berth_api; select to berth_cell

create table usage_hours (
  organization_id uuid not null,
  hour timestamp with time zone not null,
  project_id uuid,
  cpu_seconds bigint default 0 not null,
  memory_gib_seconds bigint default 0 not null,
  storage_gib_seconds bigint default 0 not null,
  egress_bytes bigint default 0 not null,
  ingress_bytes bigint default 0 not null,
  volume_storage_gib_seconds bigint default 0 not null,
  UNIQUE NULLS NOT DISTINCT (organization_id, hour, project_id),
  FOREIGN KEY (organization_id) REFERENCES organizations(id),
  FOREIGN KEY (project_id) REFERENCES projects(id)
); -- select to berth_api; insert, select to berth_cell; update (cpu_seconds, memory_gib_seconds, storage_gib_seconds, egress_bytes, ingress_bytes, volume_storage_gib_seconds) to berth_cell

create table usage_open_hours (
  organization_id uuid not null,
  hour timestamp with time zone not null,
  project_id uuid,
  cpu_seconds bigint default 0 not null,
  memory_gib_seconds bigint default 0 not null,
  storage_gib_seconds bigint default 0 not null,
  egress_bytes bigint default 0 not null,
  ingress_bytes bigint default 0 not null,
  volume_storage_gib_seconds bigint default 0 not null,
  UNIQUE NULLS NOT DISTINCT (organization_id, hour, project_id),
  FOREIGN KEY (organization_id) REFERENCES organizations(id),
  FOREIGN KEY (project_id) REFERENCES projects(id)
); -- select to berth_api; select to berth_cell

create table usage_samples (
  workspace_id uuid not null,
  hour timestamp with time zone not null,
  organization_id uuid not null,
  cpu_usec bigint default 0 not null,
  memory_byte_ms numeric default 0 not null,
  disk_byte_ms numeric default 0 not null,
  rx_bytes bigint default 0 not null,
  tx_bytes bigint default 0 not null,
  sampled_ms bigint default 0 not null,
  project_id uuid,
  checkpoint_byte_ms numeric default 0 not null,
  is_open boolean default true not null,
  entries integer default 0 not null,
  port_received_bytes bigint default 0 not null,
  port_sent_bytes bigint default 0 not null,
  UNIQUE NULLS NOT DISTINCT (workspace_id, hour, organization_id, project_id),
  FOREIGN KEY (organization_id) REFERENCES organizations(id),
  FOREIGN KEY (project_id) REFERENCES projects(id),
  CHECK ((checkpoint_byte_ms >= (0)::numeric)),
  CHECK ((cpu_usec >= 0)),
  CHECK ((disk_byte_ms >= (0)::numeric)),
  CHECK ((memory_byte_ms >= (0)::numeric)),
  CHECK ((port_received_bytes >= 0)),
  CHECK ((port_sent_bytes >= 0)),
  CHECK ((rx_bytes >= 0)),
  CHECK ((sampled_ms >= 0)),
  CHECK ((tx_bytes >= 0))
); -- select to berth_api; delete, insert, select to berth_cell; update (cpu_usec, memory_byte_ms, disk_byte_ms, rx_bytes, tx_bytes, sampled_ms, checkpoint_byte_ms, is_open, entries, port_received_bytes, port_sent_bytes) to berth_cell

create table usage_storage (
  workspace_id uuid not null,
  read_at timestamp with time zone not null,
  run uuid not null,
  monotonic_ms bigint not null,
  disk_read_at timestamp with time zone,
  disk_run uuid,
  disk_monotonic_ms bigint,
  PRIMARY KEY (workspace_id)
); -- delete, insert, select to berth_cell; update (read_at, run, monotonic_ms, disk_read_at, disk_run, disk_monotonic_ms) to berth_cell

create table volume_attachments (
  id uuid not null,
  workspace_id uuid not null,
  volume_id uuid not null,
  mount_path text not null,
  mode text not null,
  place integer not null,
  state text not null,
  operation_id uuid,
  created_at timestamp with time zone not null,
  updated_at timestamp with time zone not null,
  UNIQUE (workspace_id, mount_path),
  UNIQUE (workspace_id, place),
  UNIQUE (workspace_id, volume_id),
  PRIMARY KEY (id),
  FOREIGN KEY (volume_id) REFERENCES volumes(id),
  FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE,
  CHECK ((mode = ANY (ARRAY['read_write'::text, 'read_only'::text]))),
  CHECK (((place >= 0) AND (place <= 15))),
  CHECK ((state = ANY (ARRAY['attaching'::text, 'attached'::text, 'detaching'::text])))
); -- insert, select to berth_api; update (state, operation_id, updated_at) to berth_api; delete, select to berth_cell; update (state, operation_id, updated_at) to berth_cell

create table volume_usage_readings (
  volume_id uuid not null,
  read_at timestamp with time zone not null,
  run uuid not null,
  monotonic_ms bigint not null,
  PRIMARY KEY (volume_id),
  FOREIGN KEY (volume_id) REFERENCES volumes(id) ON DELETE CASCADE
); -- delete, insert, select to berth_cell; update (read_at, run, monotonic_ms) to berth_cell

create table volume_usage_samples (
  volume_id uuid not null,
  hour timestamp with time zone not null,
  organization_id uuid not null,
  project_id uuid not null,
  stored_byte_ms numeric default 0 not null,
  sampled_ms bigint default 0 not null,
  is_open boolean default true not null,
  entries integer default 0 not null,
  PRIMARY KEY (volume_id, hour),
  FOREIGN KEY (organization_id) REFERENCES organizations(id),
  FOREIGN KEY (project_id) REFERENCES projects(id),
  CHECK ((sampled_ms >= 0)),
  CHECK ((stored_byte_ms >= (0)::numeric))
); -- select to berth_api; delete, insert, select to berth_cell; update (stored_byte_ms, sampled_ms, is_open, entries) to berth_cell

create table volumes (
  id uuid not null,
  organization_id uuid not null,
  project_id uuid not null,
  cell_id uuid,
  name text not null,
  quota_gib integer not null,
  org_shared boolean not null,
  state text not null,
  created_at timestamp with time zone not null,
  updated_at timestamp with time zone not null,
  deleted_at timestamp with time zone,
  PRIMARY KEY (id),
  FOREIGN KEY (cell_id) REFERENCES cells(id),
  FOREIGN KEY (organization_id) REFERENCES organizations(id),
  FOREIGN KEY (project_id) REFERENCES projects(id),
  CHECK (((deleted_at IS NOT NULL) = (state = ANY (ARRAY['deleting'::text, 'deleted'::text])))),
  CHECK ((quota_gib > 0)),
  CHECK ((state = ANY (ARRAY['creating'::text, 'available'::text, 'deleting'::text, 'deleted'::text, 'failed'::text])))
); -- insert, select to berth_api; update (state, updated_at, deleted_at) to berth_api; delete, select to berth_cell; update (cell_id, state, updated_at) to berth_cell

create table workspace_authorities (
  workspace_id uuid not null,
  authority_id uuid not null,
  PRIMARY KEY (workspace_id),
  FOREIGN KEY (authority_id) REFERENCES authorities(id),
  FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE
); -- insert, select to berth_api; insert, select to berth_cell

create table workspace_egress (
  workspace_id uuid not null,
  epoch bigint not null,
  fence bigint not null,
  revision text not null,
  state text not null,
  acknowledged_at timestamp with time zone not null,
  PRIMARY KEY (workspace_id),
  FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE,
  CHECK ((state = ANY (ARRAY['enforced'::text, 'failed'::text])))
); -- select to berth_api; insert, select to berth_cell; update (epoch, fence, revision, state, acknowledged_at) to berth_cell

create table workspace_holds (
  workspace_id uuid not null,
  operation_id uuid not null,
  gate text not null,
  PRIMARY KEY (workspace_id),
  FOREIGN KEY (operation_id) REFERENCES operations(id),
  FOREIGN KEY (workspace_id) REFERENCES workspaces(id),
  CHECK ((gate = ANY (ARRAY['open'::text, 'read_only'::text, 'closed'::text])))
); -- delete, insert, select to berth_api; delete, insert, select to berth_cell; update (gate) to berth_cell

create table workspace_keys (
  organization_id uuid not null,
  key text not null,
  workspace_id uuid not null,
  reusable boolean default false not null,
  project_id uuid not null,
  PRIMARY KEY (organization_id, key),
  FOREIGN KEY (organization_id) REFERENCES organizations(id),
  FOREIGN KEY (project_id) REFERENCES projects(id)
); -- insert, select to berth_api; update (workspace_id, reusable, project_id) to berth_api; delete, select to berth_cell; update (reusable) to berth_cell

create table workspace_ports (
  id uuid not null,
  workspace_id uuid not null,
  port integer not null,
  requests bigint default 0 not null,
  received_bytes bigint default 0 not null,
  sent_bytes bigint default 0 not null,
  last_request_at timestamp with time zone,
  created_at timestamp with time zone not null,
  UNIQUE (workspace_id, port),
  PRIMARY KEY (id),
  FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE,
  CHECK (((port >= 1) AND (port <= 65535))),
  CHECK ((received_bytes >= 0)),
  CHECK ((requests >= 0)),
  CHECK ((sent_bytes >= 0))
); -- delete, insert, select to berth_api; select to berth_cell; update (requests, received_bytes, sent_bytes, last_request_at) to berth_cell

create table workspace_secrets (
  workspace_id uuid not null,
  project_id uuid not null,
  name text not null,
  PRIMARY KEY (workspace_id, name),
  FOREIGN KEY (project_id) REFERENCES projects(id),
  FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE
); -- delete, insert, select to berth_api; select to berth_cell

create table workspaces (
  id uuid not null,
  organization_id uuid not null,
  project_id uuid not null,
  key text not null,
  template_version_id uuid not null,
  observed_state text not null,
  desired_state text not null,
  pending_reason text,
  ended_reason text,
  lifetime text not null,
  mode text not null,
  purpose text default 'standard'::text not null,
  disk_layout text not null,
  origin jsonb,
  caps jsonb default '{}'::jsonb not null,
  ceiling_cpu_millis integer not null,
  ceiling_memory_mib integer not null,
  ceiling_disk_gib integer not null,
  grant_cpu_millis integer,
  grant_memory_mib integer,
  grant_disk_gib integer,
  inputs jsonb default '{}'::jsonb not null,
  startup jsonb,
  tree_revision bigint,
  cell_id uuid,
  ownership_epoch bigint default 0 not null,
  disk text,
  checkpoint_id uuid,
  idle_policy text,
  active_at timestamp with time zone not null,
  tool_call_at timestamp with time zone,
  busy_until timestamp with time zone,
  keepalive_until timestamp with time zone,
  suspend_requested_at timestamp with time zone,
  suspend_after_seconds integer,
  suspend_not_before timestamp with time zone,
  tokens_revoked_before timestamp with time zone,
  created_at timestamp with time zone not null,
  updated_at timestamp with time zone not null,
  deleted_at timestamp with time zone,
  idle_gaps real[],
  idle_failures integer default 0 not null,
  idle_retry_at timestamp with time zone,
  residency text default 'resident'::text not null,
  residency_fence bigint default 0 not null,
  volumes jsonb default '[]'::jsonb not null,
  background_seconds integer,
  draft_state_id uuid,
  state_layers text[],
  family_id uuid,
  PRIMARY KEY (id),
  FOREIGN KEY (cell_id) REFERENCES cells(id),
  FOREIGN KEY (organization_id) REFERENCES organizations(id),
  FOREIGN KEY (project_id) REFERENCES projects(id),
  FOREIGN KEY (template_version_id) REFERENCES template_versions(id),
  CHECK ((background_seconds > 0)),
  CHECK (((deleted_at IS NULL) = (desired_state <> 'deleted'::text))),
  CHECK ((desired_state = ANY (ARRAY['running'::text, 'suspended'::text, 'deleted'::text]))),
  CHECK ((disk_layout = ANY (ARRAY['legacy'::text, 'layered'::text]))),
  CHECK ((lifetime = ANY (ARRAY['persistent'::text, 'session'::text]))),
  CHECK ((mode = ANY (ARRAY['processful'::text, 'file_first'::text]))),
  CHECK ((observed_state = ANY (ARRAY['creating'::text, 'starting'::text, 'running'::text, 'suspending'::text, 'suspended'::text, 'resuming'::text, 'forking'::text, 'stopping'::text, 'failed'::text, 'deleting'::text, 'deleted'::text]))),
  CHECK ((purpose = ANY (ARRAY['standard'::text, 'template_draft'::text, 'template_test'::text]))),
  CHECK ((residency = ANY (ARRAY['resident'::text, 'hibernated'::text, 'restoring'::text])))
); -- insert, select to berth_api; update (observed_state, desired_state, pending_reason, ended_reason, inputs, cell_id, idle_policy, suspend_requested_at, suspend_after_seconds, suspend_not_before, tokens_revoked_before, updated_at, deleted_at) to berth_api; delete, select to berth_cell; update (observed_state, desired_state, pending_reason, ended_reason, grant_cpu_millis, grant_memory_mib, grant_disk_gib, startup, tree_revision, cell_id, ownership_epoch, disk, checkpoint_id, active_at, tool_call_at, busy_until, keepalive_until, suspend_requested_at, suspend_after_seconds, suspend_not_before, tokens_revoked_before, updated_at, deleted_at, idle_failures, idle_retry_at, residency, residency_fence, state_layers) to berth_cell

CREATE INDEX agent_sessions_newest ON public.agent_sessions USING btree (workspace_id, uuid_send(id) DESC);

CREATE INDEX api_keys_in_force ON public.api_keys USING btree (project_id, uuid_send(id) DESC) WHERE (revoked_at IS NULL);

CREATE INDEX api_keys_newest ON public.api_keys USING btree (project_id, uuid_send(id) DESC);

CREATE INDEX audit_events_by_age ON public.audit_events USING btree (created_at);

CREATE UNIQUE INDEX audit_events_chain ON public.audit_events USING btree (organization_id, sequence) WHERE (sequence IS NOT NULL);

CREATE INDEX audit_events_changes ON public.audit_events USING btree (organization_id, uuid_send(id) DESC) WHERE (action <> 'tools.use'::text);

CREATE INDEX audit_events_of_accounts ON public.audit_events USING btree (subject_id, uuid_send(id)) WHERE (organization_id IS NULL);

CREATE INDEX audit_events_tools ON public.audit_events USING btree (organization_id, uuid_send(id) DESC) WHERE (action = 'tools.use'::text);

CREATE INDEX audit_events_unlinked ON public.audit_events USING btree (organization_id, id) WHERE (sequence IS NULL);

CREATE INDEX authorities_by_key ON public.authorities USING btree (key_id);

CREATE UNIQUE INDEX checkouts_pending ON public.checkouts USING btree (organization_id) WHERE (state = 'pending'::text);

CREATE INDEX checkouts_to_look_at ON public.checkouts USING btree (look_at) WHERE (state = 'pending'::text);

CREATE INDEX checkpoints_by_deletion ON public.checkpoints USING btree (deleted_at) WHERE (deleted_at IS NOT NULL);

CREATE INDEX checkpoints_by_expiry ON public.checkpoints USING btree (expires_at) WHERE ((expires_at IS NOT NULL) AND (deleted_at IS NULL));

CREATE INDEX checkpoints_by_workspace ON public.checkpoints USING btree (workspace_id, id DESC);

CREATE INDEX checkpoints_of_captures ON public.checkpoints USING btree (cell_id) WHERE ((kind = 'layer'::text) AND (expires_at IS NULL) AND (deleted_at IS NULL));

CREATE INDEX egress_denials_by_age ON public.egress_denials USING btree (last_at);

CREATE UNIQUE INDEX egress_versions_of_project ON public.egress_versions USING btree (project_id, version) WHERE (workspace_id IS NULL);

CREATE UNIQUE INDEX egress_versions_of_workspace ON public.egress_versions USING btree (workspace_id, version) WHERE (workspace_id IS NOT NULL);

CREATE INDEX email_tokens_by_end ON public.email_tokens USING btree (expires_at);

CREATE INDEX email_tokens_of_person ON public.email_tokens USING btree (person_id, purpose);

CREATE INDEX executions_by_end ON public.executions USING btree (finished_at) WHERE (finished_at IS NOT NULL);

CREATE INDEX executions_unfinished ON public.executions USING btree (cell_id) WHERE (finished_at IS NULL);

CREATE INDEX exports_by_age ON public.exports USING btree (created_at);

CREATE INDEX exports_by_end ON public.exports USING btree (expires_at) WHERE (state = 'ready'::text);

CREATE INDEX exports_of_account ON public.exports USING btree (requested_by, uuid_send(id) DESC) WHERE (organization_id IS NULL);

CREATE INDEX exports_of_organization ON public.exports USING btree (organization_id, uuid_send(id) DESC) WHERE (organization_id IS NOT NULL);

CREATE UNIQUE INDEX exports_under_way ON public.exports USING btree (COALESCE(organization_id, requested_by)) WHERE (state = ANY (ARRAY['queued'::text, 'running'::text]));

CREATE INDEX exports_waiting ON public.exports USING btree (next_try_at) WHERE (state = ANY (ARRAY['queued'::text, 'running'::text]));

CREATE INDEX feedback_by_age ON public.feedback USING btree (received_at);

CREATE INDEX feedback_of_organization ON public.feedback USING btree (organization_id, received_at DESC);

CREATE INDEX feedback_of_principal ON public.feedback USING btree (principal_id, received_at DESC);

CREATE INDEX idempotency_entries_by_age ON public.idempotency_entries USING btree (created_at);

CREATE INDEX invitations_by_age ON public.invitations USING btree (created_at);

CREATE UNIQUE INDEX invitations_in_force ON public.invitations USING btree (organization_id, email) WHERE ((accepted_at IS NULL) AND (revoked_at IS NULL));

CREATE INDEX invitations_newest ON public.invitations USING btree (organization_id, uuid_send(id) DESC);

CREATE INDEX invitations_waiting ON public.invitations USING btree (organization_id, uuid_send(id) DESC) WHERE ((accepted_at IS NULL) AND (revoked_at IS NULL));

CREATE INDEX invoices_newest ON public.invoices USING btree (organization_id, uuid_send(id) DESC);

CREATE INDEX invoices_open ON public.invoices USING btree (due_at) WHERE (state = 'open'::text);

CREATE INDEX machines_by_cell ON public.machines USING btree (cell_id);

CREATE INDEX machines_by_workspace ON public.machines USING btree (workspace_id);

CREATE INDEX mails_by_age ON public.mails USING btree (created_at);

CREATE INDEX mails_waiting ON public.mails USING btree (next_try_at) WHERE ((sent_at IS NULL) AND (given_up_at IS NULL));

CREATE INDEX memberships_by_person ON public.memberships USING btree (person_id);

CREATE INDEX memberships_newest ON public.memberships USING btree (organization_id, uuid_send(person_id) DESC);

CREATE INDEX operations_by_kind_and_state ON public.operations USING btree (workspace_id, kind, state, uuid_send(id) DESC);

CREATE INDEX operations_by_source ON public.operations USING btree (source_workspace_id) WHERE (source_workspace_id IS NOT NULL);

CREATE INDEX operations_newest ON public.operations USING btree (workspace_id, uuid_send(id) DESC);

CREATE INDEX operations_of_others ON public.operations USING btree (subject_id, uuid_send(id) DESC) WHERE (subject_kind <> 'workspace'::text);

CREATE INDEX operations_open ON public.operations USING btree (cell_id, id) WHERE (completed_at IS NULL);

CREATE INDEX organizations_refused_for_payment ON public.organizations USING btree (id) WHERE (payment_refuses_starts IS NOT NULL);

CREATE INDEX payment_accounts_to_look_at ON public.payment_accounts USING btree (look_at) WHERE (subscription_id IS NOT NULL);

CREATE INDEX payment_events_by_end ON public.payment_events USING btree (applied_at) WHERE (applied_at IS NOT NULL);

CREATE INDEX payment_events_waiting ON public.payment_events USING btree (next_try_at) WHERE (applied_at IS NULL);

CREATE INDEX payment_invoices_waiting ON public.payment_invoices USING btree (next_try_at) WHERE (settled_at IS NULL);

CREATE UNIQUE INDEX people_by_email ON public.people USING btree (lower(email));

CREATE INDEX person_sessions_by_end ON public.person_sessions USING btree (expires_at);

CREATE INDEX person_sessions_by_person ON public.person_sessions USING btree (person_id);

CREATE INDEX person_sessions_ended ON public.person_sessions USING btree (person_id, revoked_at) WHERE (revoked_at IS NOT NULL);

CREATE INDEX person_sessions_newest ON public.person_sessions USING btree (person_id, uuid_send(id) DESC) WHERE (revoked_at IS NULL);

CREATE INDEX port_credentials_by_end ON public.port_credentials USING btree (expires_at) WHERE (expires_at IS NOT NULL);

CREATE INDEX port_credentials_by_port ON public.port_credentials USING btree (port_id, kind);

CREATE UNIQUE INDEX port_credentials_callback ON public.port_credentials USING btree (port_id) WHERE (kind = 'callback'::text);

CREATE INDEX projects_newest ON public.projects USING btree (organization_id, uuid_send(id) DESC);

CREATE INDEX secret_versions_by_key ON public.secret_versions USING btree (key_id) WHERE (key_id IS NOT NULL);

CREATE INDEX secret_versions_newest ON public.secret_versions USING btree (secret_id, uuid_send(id) DESC);

CREATE INDEX secrets_live_of_organization ON public.secrets USING btree (organization_id, uuid_send(id) DESC) WHERE ((project_id IS NULL) AND (deleted_at IS NULL));

CREATE INDEX secrets_live_of_project ON public.secrets USING btree (project_id, uuid_send(id) DESC) WHERE ((project_id IS NOT NULL) AND (deleted_at IS NULL));

CREATE INDEX secrets_newest_of_organization ON public.secrets USING btree (organization_id, uuid_send(id) DESC) WHERE (project_id IS NULL);

CREATE INDEX secrets_newest_of_project ON public.secrets USING btree (project_id, uuid_send(id) DESC) WHERE (project_id IS NOT NULL);

CREATE UNIQUE INDEX secrets_of_organization ON public.secrets USING btree (organization_id, name) WHERE ((deleted_at IS NULL) AND (project_id IS NULL));

CREATE UNIQUE INDEX secrets_of_project ON public.secrets USING btree (project_id, name) WHERE ((deleted_at IS NULL) AND (project_id IS NOT NULL));

CREATE INDEX spend_alerts_waiting ON public.spend_alerts USING btree (reached_at) WHERE (mailed_at IS NULL);

CREATE INDEX subscription_changes_of_organization ON public.subscription_changes USING btree (organization_id, changed_at);

CREATE INDEX template_builds_by_age ON public.template_builds USING btree (created_at) WHERE (spec <> '{}'::jsonb);

CREATE INDEX template_builds_of_captures ON public.template_builds USING btree (capture_operation_id) WHERE (capture_operation_id IS NOT NULL);

CREATE INDEX template_builds_of_organization ON public.template_builds USING btree (organization_id, uuid_send(id) DESC);

CREATE INDEX template_builds_of_template ON public.template_builds USING btree (template_id, uuid_send(id) DESC);

CREATE INDEX template_builds_of_version ON public.template_builds USING btree (version_id) WHERE (version_id IS NOT NULL);

CREATE INDEX template_captures_of_cells ON public.template_captures USING btree (cell_id, used_at);

CREATE INDEX template_draft_states_of_draft ON public.template_draft_states USING btree (draft_id, id DESC);

CREATE UNIQUE INDEX template_drafts_live ON public.template_drafts USING btree (template_id) WHERE (discarded_at IS NULL);

CREATE INDEX template_uploads_by_organization ON public.template_uploads USING btree (organization_id);

CREATE INDEX template_uploads_by_use ON public.template_uploads USING btree (used_at);

CREATE UNIQUE INDEX tree_keys_by_revision ON public.tree_keys USING btree (workspace_id, revision);

CREATE INDEX trees_of_store ON public.trees USING btree (store_id) WHERE (store_id IS NOT NULL);

CREATE INDEX usage_counters_by_time ON public.usage_counters USING btree (read_at);

CREATE INDEX usage_counters_newest ON public.usage_counters USING btree (workspace_id, read_at DESC);

CREATE INDEX usage_grants_newest ON public.usage_grants USING btree (organization_id, uuid_send(id) DESC);

CREATE INDEX usage_samples_by_hour ON public.usage_samples USING btree (hour);

CREATE INDEX usage_samples_by_organization ON public.usage_samples USING btree (organization_id, hour);

CREATE INDEX usage_samples_by_project ON public.usage_samples USING btree (project_id, hour);

CREATE INDEX usage_samples_grown ON public.usage_samples USING btree (organization_id, hour) WHERE (is_open AND (entries > 0));

CREATE INDEX usage_samples_open ON public.usage_samples USING btree (organization_id, hour) WHERE is_open;

CREATE INDEX usage_samples_open_by_hour ON public.usage_samples USING btree (hour) WHERE is_open;

CREATE INDEX usage_storage_by_time ON public.usage_storage USING btree (read_at);

CREATE INDEX volume_attachments_by_volume ON public.volume_attachments USING btree (volume_id);

CREATE INDEX volume_usage_samples_by_hour ON public.volume_usage_samples USING btree (hour);

CREATE INDEX volume_usage_samples_by_organization ON public.volume_usage_samples USING btree (organization_id, hour);

CREATE INDEX volume_usage_samples_by_project ON public.volume_usage_samples USING btree (project_id, hour);

CREATE INDEX volume_usage_samples_open ON public.volume_usage_samples USING btree (organization_id, hour) WHERE is_open;

CREATE INDEX volume_usage_samples_open_by_hour ON public.volume_usage_samples USING btree (hour) WHERE is_open;

CREATE INDEX volumes_live ON public.volumes USING btree (organization_id) WHERE (deleted_at IS NULL);

CREATE UNIQUE INDEX volumes_live_name ON public.volumes USING btree (project_id, name) WHERE (deleted_at IS NULL);

CREATE INDEX volumes_of_cell ON public.volumes USING btree (cell_id);

CREATE INDEX volumes_of_project ON public.volumes USING btree (project_id, uuid_send(id) DESC);

CREATE INDEX volumes_shared ON public.volumes USING btree (organization_id, uuid_send(id) DESC) WHERE org_shared;

CREATE INDEX volumes_tombstones ON public.volumes USING btree (deleted_at) WHERE (state = 'deleted'::text);

CREATE INDEX workspace_authorities_by_authority ON public.workspace_authorities USING btree (authority_id);

CREATE INDEX workspace_holds_by_operation ON public.workspace_holds USING btree (operation_id);

CREATE INDEX workspace_keys_by_workspace ON public.workspace_keys USING btree (workspace_id);

CREATE INDEX workspace_ports_newest ON public.workspace_ports USING btree (workspace_id, uuid_send(id) DESC);

CREATE INDEX workspace_secrets_by_name ON public.workspace_secrets USING btree (project_id, name);

CREATE INDEX workspaces_by_desired_state ON public.workspaces USING btree (project_id, desired_state, lifetime, purpose, uuid_send(id) DESC);

CREATE INDEX workspaces_by_key ON public.workspaces USING btree (project_id, key text_pattern_ops);

CREATE INDEX workspaces_by_observed_state ON public.workspaces USING btree (project_id, observed_state, desired_state, lifetime, purpose, uuid_send(id) DESC);

CREATE INDEX workspaces_counted ON public.workspaces USING btree (organization_id) WHERE ((deleted_at IS NULL) AND (desired_state = 'running'::text));

CREATE INDEX workspaces_granted ON public.workspaces USING btree (cell_id) WHERE (grant_memory_mib IS NOT NULL);

CREATE INDEX workspaces_of_draft_states ON public.workspaces USING btree (draft_state_id) WHERE (draft_state_id IS NOT NULL);

CREATE INDEX workspaces_on_cell ON public.workspaces USING btree (cell_id) WHERE (observed_state <> 'deleted'::text);

CREATE INDEX workspaces_running ON public.workspaces USING btree (cell_id) WHERE (observed_state = 'running'::text);

CREATE INDEX workspaces_tombstones ON public.workspaces USING btree (deleted_at) WHERE (observed_state = 'deleted'::text);

create sequence fences;

CREATE OR REPLACE FUNCTION public.add_open_usage(usage_open_hours[])
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
  insert into usage_open_hours as o
  select organization_id, hour, project_id, sum(cpu_seconds)::bigint, sum(memory_gib_seconds)::bigint, sum(storage_gib_seconds)::bigint,
    sum(egress_bytes)::bigint, sum(ingress_bytes)::bigint, sum(volume_storage_gib_seconds)::bigint
  from unnest($1) group by 1, 2, 3
  having (sum(cpu_seconds), sum(memory_gib_seconds), sum(storage_gib_seconds), sum(egress_bytes), sum(ingress_bytes),
    sum(volume_storage_gib_seconds)) <> (0, 0, 0, 0, 0, 0)
  order by 1, 2, 3
  on conflict (organization_id, hour, project_id) do update set cpu_seconds = o.cpu_seconds + excluded.cpu_seconds,
    memory_gib_seconds = o.memory_gib_seconds + excluded.memory_gib_seconds,
    storage_gib_seconds = o.storage_gib_seconds + excluded.storage_gib_seconds, egress_bytes = o.egress_bytes + excluded.egress_bytes,
    ingress_bytes = o.ingress_bytes + excluded.ingress_bytes,
    volume_storage_gib_seconds = o.volume_storage_gib_seconds + excluded.volume_storage_gib_seconds
$function$;

CREATE OR REPLACE FUNCTION public.attached_volumes(workspace uuid)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
AS $function$
  select coalesce(jsonb_agg(jsonb_build_object('volume_id', a.volume_id, 'place', a.place, 'mount_path', a.mount_path,
    'read_only', a.mode = 'read_only') order by a.place), '[]')
  from volume_attachments a where a.workspace_id = workspace and a.state in ('attached', 'detaching')
$function$;

CREATE OR REPLACE FUNCTION public.cell_channel(channel text, cell_id uuid)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
AS $function$
  select channel || '_' || coalesce(replace(cell_id::text, '-', ''), 'unplaced')
$function$;

CREATE OR REPLACE FUNCTION public.close_ports()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  delete from workspace_ports where workspace_id = new.id;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.drop_attachments()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  delete from volume_attachments where workspace_id = new.id;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.fill_operation_subject()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  new.subject_id := new.workspace_id;
  return new;
end $function$;

CREATE OR REPLACE FUNCTION public.follow_machine()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  if new.grant_memory_mib is null or new.cell_id is null then
    delete from machines where kind = 'workspace' and id = new.id;
    return null;
  end if;
  insert into machines (kind, id, workspace_id, organization_id, project_id, cell_id, grant_cpu_millis, grant_memory_mib, grant_disk_gib,
    epoch, fence, disk, checkpoint_id, residency)
  values ('workspace', new.id, new.id, new.organization_id, new.project_id, new.cell_id, new.grant_cpu_millis, new.grant_memory_mib,
    new.grant_disk_gib, new.ownership_epoch, new.residency_fence, new.disk, new.checkpoint_id, new.residency)
  on conflict (kind, id) do update set
    organization_id = excluded.organization_id, project_id = excluded.project_id, cell_id = excluded.cell_id,
    grant_cpu_millis = excluded.grant_cpu_millis, grant_memory_mib = excluded.grant_memory_mib, grant_disk_gib = excluded.grant_disk_gib,
    epoch = excluded.epoch, fence = excluded.fence, disk = excluded.disk, checkpoint_id = excluded.checkpoint_id,
    residency = excluded.residency;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.note_idle_gap()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
declare
  idle_from timestamptz := greatest(old.active_at, least(coalesce(old.busy_until, old.active_at), new.active_at),
    least(coalesce(old.keepalive_until, old.active_at), new.active_at));
  gap_seconds double precision := extract(epoch from new.active_at - idle_from);
  bucket integer;
begin
  if gap_seconds < 10 then return new; end if;
  bucket := 1 + least(24, floor(ln(gap_seconds / 10) / (ln(1440::double precision) / 24)));
  new.idle_gaps := (
    select array_agg((coalesce(old.idle_gaps[i], 0) * 0.98 + (i = bucket)::integer)::real order by i) from generate_series(1, 25) i);
  return new;
end $function$;

CREATE OR REPLACE FUNCTION public.notify_api_key()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform pg_notify('berth_api_key', new.id::text);
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.notify_checkpoint()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform pg_notify(cell_channel('berth_checkpoint', new.cell_id), new.id::text);
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.notify_egress()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if new.workspace_id is null then
    perform pg_notify(cell_channel('berth_egress', id), 'project:' || new.project_id) from cells;
  else
    perform pg_notify(cell_channel('berth_egress', (select cell_id from workspaces where id = new.workspace_id)), new.workspace_id::text);
  end if;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.notify_hold()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
declare
  held uuid := coalesce(new.workspace_id, old.workspace_id);
begin
  perform pg_notify(cell_channel('berth_workspace', (select cell_id from workspaces where id = held)), held::text);
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.notify_layer_list()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform pg_notify('berth_layer_list', new.layer);
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.notify_membership()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform pg_notify('berth_membership', old.person_id::text);
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.notify_operation()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
declare
  taker uuid := coalesce(new.cell_id,
    (select cell_id from workspaces where id = new.workspace_id),
    (select cell_id from workspaces where id = new.source_workspace_id));
begin
  perform pg_notify('berth_operation', new.id::text);
  perform pg_notify(cell_channel('berth_operation', taker), new.id::text);
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.notify_port()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform pg_notify(cell_channel('berth_port', (select cell_id from workspaces where id = old.workspace_id)), old.id::text);
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.notify_port_credential()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
declare
  cell uuid;
begin
  select w.cell_id into cell from workspace_ports p join workspaces w on w.id = p.workspace_id where p.id = old.port_id;
  if found then perform pg_notify(cell_channel('berth_port', cell), old.port_id::text); end if;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.notify_secret_hosts()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if tg_op = 'INSERT' or old.hosts is distinct from new.hosts or old.deleted_at is distinct from new.deleted_at then
    perform pg_notify(cell_channel('berth_egress', w.cell_id), w.id::text)
    from workspace_secrets b join workspaces w on w.id = b.workspace_id
    where b.name = new.name and w.organization_id = new.organization_id and (new.project_id is null or b.project_id = new.project_id);
  end if;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.notify_service_key()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform pg_notify('berth_service_key', new.purpose);
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.notify_session_end()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform pg_notify('berth_membership', new.person_id::text);
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.notify_signing_key()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform pg_notify('berth_signing_key', new.kid);
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.notify_template_capture()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform pg_notify('berth_template_capture', new.id::text);
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.notify_workspace()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform pg_notify(cell_channel('berth_workspace', new.cell_id), new.id::text);
  if tg_op = 'UPDATE' and old.cell_id is distinct from new.cell_id then
    perform pg_notify(cell_channel('berth_workspace', old.cell_id), new.id::text);
  end if;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.notify_workspace_secrets()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
declare
  bound uuid := coalesce(new.workspace_id, old.workspace_id);
  of_cell uuid := (select cell_id from workspaces where id = bound);
begin
  perform pg_notify(cell_channel('berth_workspace', of_cell), bound::text);
  perform pg_notify(cell_channel('berth_egress', of_cell), bound::text);
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.pass_source_hold()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
declare
  next_id uuid;
  taker uuid;
begin
  for next_id, taker in
    select id, cell_id from operations
    where source_workspace_id = old.workspace_id and kind = 'fork' and step = 'joined' and completed_at is null and id <> old.operation_id
    order by id
    for no key update
  loop
    insert into workspace_holds (workspace_id, operation_id, gate) values (old.workspace_id, next_id, 'closed') on conflict do nothing;
    perform pg_notify(cell_channel('berth_operation', taker), next_id::text);
    exit;
  end loop;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.refuse_in_ending_organization()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if exists (select from organizations where id = new.organization_id and deleting_at is not null) then
    raise exception 'the organization is being deleted' using errcode = 'BE404';
  end if;
  return new;
end $function$;

CREATE OR REPLACE FUNCTION public.usage_elapsed_ms(read_at timestamp with time zone, run uuid, monotonic_ms bigint, now timestamp with time zone, now_run uuid, now_monotonic_ms bigint, most_ms bigint)
 RETURNS bigint
 LANGUAGE sql
 IMMUTABLE
AS $function$
  select case when read_at is null then null
    else least(greatest(case when run = now_run then now_monotonic_ms - monotonic_ms else (extract(epoch from now - read_at) * 1000)::bigint end, 0), most_ms) end
$function$;

CREATE OR REPLACE FUNCTION public.usage_entries_written()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  perform add_open_usage(array(
    select row(organization_id, hour, project_id, -cpu_seconds, -memory_gib_seconds, -storage_gib_seconds, -egress_bytes, -ingress_bytes,
      -volume_storage_gib_seconds)::usage_open_hours from after_it));
  delete from usage_open_hours o using (select distinct organization_id, hour, project_id from after_it) a
    where o.organization_id = a.organization_id and o.hour = a.hour and o.project_id is not distinct from a.project_id
      and (o.cpu_seconds, o.memory_gib_seconds, o.storage_gib_seconds, o.egress_bytes, o.ingress_bytes, o.volume_storage_gib_seconds)
        = (0, 0, 0, 0, 0, 0);
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.usage_gib_seconds(byte_ms numeric)
 RETURNS bigint
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE STRICT
AS $function$
  select div(byte_ms, 1073741824000)::bigint
$function$;

CREATE OR REPLACE FUNCTION public.usage_samples_grew()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  if tg_op = 'INSERT' then
    perform add_open_usage(array(
      select row(organization_id, hour, project_id, (cpu_usec / 1000000), usage_gib_seconds(memory_byte_ms),
        usage_gib_seconds(disk_byte_ms + checkpoint_byte_ms), (tx_bytes + port_sent_bytes), (rx_bytes + port_received_bytes),
        0::bigint)::usage_open_hours from after_it));
  else
    perform add_open_usage(array(
      select row(organization_id, hour, project_id, (cpu_usec / 1000000), usage_gib_seconds(memory_byte_ms),
        usage_gib_seconds(disk_byte_ms + checkpoint_byte_ms), (tx_bytes + port_sent_bytes), (rx_bytes + port_received_bytes),
        0::bigint)::usage_open_hours from after_it
      union all
      select row(organization_id, hour, project_id, -(cpu_usec / 1000000), -usage_gib_seconds(memory_byte_ms),
        -usage_gib_seconds(disk_byte_ms + checkpoint_byte_ms), -(tx_bytes + port_sent_bytes), -(rx_bytes + port_received_bytes),
        0::bigint)::usage_open_hours from before_it));
  end if;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.volume_usage_samples_grew()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  if tg_op = 'INSERT' then
    perform add_open_usage(array(
      select row(organization_id, hour, project_id, 0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint,
        usage_gib_seconds(stored_byte_ms))::usage_open_hours from after_it));
  else
    perform add_open_usage(array(
      select row(organization_id, hour, project_id, 0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint,
        usage_gib_seconds(stored_byte_ms))::usage_open_hours from after_it
      union all
      select row(organization_id, hour, project_id, 0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint,
        -usage_gib_seconds(stored_byte_ms))::usage_open_hours from before_it));
  end if;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.write_attached_volumes()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  changed uuid := coalesce(new.workspace_id, old.workspace_id);
begin
  update workspaces set volumes = attached_volumes(changed) where id = changed and volumes <> attached_volumes(changed);
  return null;
end $function$;

CREATE TRIGGER api_key_changed AFTER UPDATE OF revoked_at, tool_permissions, expires_at ON public.api_keys FOR EACH ROW EXECUTE FUNCTION notify_api_key();

CREATE TRIGGER attached_volumes_changed AFTER INSERT OR DELETE OR UPDATE ON public.volume_attachments FOR EACH ROW EXECUTE FUNCTION write_attached_volumes();

CREATE TRIGGER checkpoint_deleted AFTER UPDATE OF deleted_at ON public.checkpoints FOR EACH ROW EXECUTE FUNCTION notify_checkpoint();

CREATE TRIGGER egress_changed AFTER INSERT ON public.egress_versions FOR EACH ROW EXECUTE FUNCTION notify_egress();

CREATE TRIGGER hold_changed AFTER INSERT OR DELETE OR UPDATE ON public.workspace_holds FOR EACH ROW EXECUTE FUNCTION notify_hold();

CREATE TRIGGER hold_passes AFTER DELETE ON public.workspace_holds FOR EACH ROW EXECUTE FUNCTION pass_source_hold();

CREATE TRIGGER idle_gap BEFORE UPDATE OF active_at ON public.workspaces FOR EACH ROW WHEN ((new.active_at >= (old.active_at + '00:00:10'::interval))) EXECUTE FUNCTION note_idle_gap();

CREATE TRIGGER layer_lists_wanted AFTER INSERT OR UPDATE OF state ON public.layer_lists FOR EACH ROW WHEN ((new.state = 'wanted'::text)) EXECUTE FUNCTION notify_layer_list();

CREATE TRIGGER membership_changed AFTER DELETE OR UPDATE OF role ON public.memberships FOR EACH ROW EXECUTE FUNCTION notify_membership();

CREATE TRIGGER not_in_ending_organization BEFORE INSERT ON public.api_keys FOR EACH ROW EXECUTE FUNCTION refuse_in_ending_organization();

CREATE TRIGGER not_in_ending_organization BEFORE INSERT ON public.invitations FOR EACH ROW EXECUTE FUNCTION refuse_in_ending_organization();

CREATE TRIGGER not_in_ending_organization BEFORE INSERT ON public.memberships FOR EACH ROW EXECUTE FUNCTION refuse_in_ending_organization();

CREATE TRIGGER not_in_ending_organization BEFORE INSERT ON public.projects FOR EACH ROW EXECUTE FUNCTION refuse_in_ending_organization();

CREATE TRIGGER not_in_ending_organization BEFORE INSERT ON public.secrets FOR EACH ROW EXECUTE FUNCTION refuse_in_ending_organization();

CREATE TRIGGER not_in_ending_organization BEFORE INSERT ON public.volumes FOR EACH ROW EXECUTE FUNCTION refuse_in_ending_organization();

CREATE TRIGGER not_in_ending_organization BEFORE INSERT ON public.workspaces FOR EACH ROW EXECUTE FUNCTION refuse_in_ending_organization();

CREATE TRIGGER operation_changed AFTER INSERT OR UPDATE OF state, state_reason ON public.operations FOR EACH ROW EXECUTE FUNCTION notify_operation();

CREATE TRIGGER operation_subject BEFORE INSERT ON public.operations FOR EACH ROW WHEN ((new.subject_id IS NULL)) EXECUTE FUNCTION fill_operation_subject();

CREATE TRIGGER port_closed AFTER DELETE ON public.workspace_ports FOR EACH ROW EXECUTE FUNCTION notify_port();

CREATE TRIGGER port_credential_gone AFTER DELETE ON public.port_credentials FOR EACH ROW EXECUTE FUNCTION notify_port_credential();

CREATE TRIGGER secret_hosts_changed AFTER INSERT OR UPDATE OF hosts, deleted_at ON public.secrets FOR EACH ROW EXECUTE FUNCTION notify_secret_hosts();

CREATE TRIGGER service_key_changed AFTER INSERT OR UPDATE OF retired_at ON public.service_keys FOR EACH ROW EXECUTE FUNCTION notify_service_key();

CREATE TRIGGER session_ended AFTER UPDATE OF revoked_at ON public.person_sessions FOR EACH ROW WHEN (((old.revoked_at IS NULL) AND (new.revoked_at IS NOT NULL))) EXECUTE FUNCTION notify_session_end();

CREATE TRIGGER signing_key_changed AFTER INSERT OR UPDATE OF retired_at ON public.signing_keys FOR EACH ROW EXECUTE FUNCTION notify_signing_key();

CREATE TRIGGER template_captures_wanted AFTER INSERT OR UPDATE OF state ON public.template_captures FOR EACH ROW WHEN ((new.state = 'wanted'::text)) EXECUTE FUNCTION notify_template_capture();

CREATE TRIGGER usage_entries_added AFTER INSERT ON public.usage_entries REFERENCING NEW TABLE AS after_it FOR EACH STATEMENT EXECUTE FUNCTION usage_entries_written();

CREATE TRIGGER usage_samples_added AFTER INSERT ON public.usage_samples REFERENCING NEW TABLE AS after_it FOR EACH STATEMENT EXECUTE FUNCTION usage_samples_grew();

CREATE TRIGGER usage_samples_changed AFTER UPDATE ON public.usage_samples REFERENCING OLD TABLE AS before_it NEW TABLE AS after_it FOR EACH STATEMENT EXECUTE FUNCTION usage_samples_grew();

CREATE TRIGGER volume_usage_samples_added AFTER INSERT ON public.volume_usage_samples REFERENCING NEW TABLE AS after_it FOR EACH STATEMENT EXECUTE FUNCTION volume_usage_samples_grew();

CREATE TRIGGER volume_usage_samples_changed AFTER UPDATE ON public.volume_usage_samples REFERENCING OLD TABLE AS before_it NEW TABLE AS after_it FOR EACH STATEMENT EXECUTE FUNCTION volume_usage_samples_grew();

CREATE TRIGGER warm_versions_changed AFTER UPDATE OF published_at, archived_at ON public.template_versions FOR EACH ROW WHEN ((((new.settings -> 'warm'::text))::text = 'true'::text)) EXECUTE FUNCTION notify_template_capture();

CREATE TRIGGER warm_versions_made AFTER INSERT ON public.template_versions FOR EACH ROW WHEN ((((new.settings -> 'warm'::text))::text = 'true'::text)) EXECUTE FUNCTION notify_template_capture();

CREATE TRIGGER workspace_attachments_dropped AFTER UPDATE OF deleted_at ON public.workspaces FOR EACH ROW WHEN (((new.deleted_at IS NOT NULL) AND (old.deleted_at IS NULL))) EXECUTE FUNCTION drop_attachments();

CREATE TRIGGER workspace_changed AFTER INSERT OR UPDATE OF observed_state, desired_state, ownership_epoch, deleted_at, tokens_revoked_before, suspend_requested_at, idle_policy, inputs, cell_id ON public.workspaces FOR EACH ROW EXECUTE FUNCTION notify_workspace();

CREATE TRIGGER workspace_granted AFTER INSERT ON public.workspaces FOR EACH ROW WHEN ((new.grant_memory_mib IS NOT NULL)) EXECUTE FUNCTION follow_machine();

CREATE TRIGGER workspace_machine AFTER UPDATE OF organization_id, project_id, cell_id, grant_cpu_millis, grant_memory_mib, grant_disk_gib, ownership_epoch, residency_fence, disk, checkpoint_id, residency ON public.workspaces FOR EACH ROW WHEN (((old.grant_memory_mib IS NOT NULL) OR (new.grant_memory_mib IS NOT NULL))) EXECUTE FUNCTION follow_machine();

CREATE TRIGGER workspace_ports_closed AFTER UPDATE OF deleted_at ON public.workspaces FOR EACH ROW WHEN (((new.deleted_at IS NOT NULL) AND (old.deleted_at IS NULL))) EXECUTE FUNCTION close_ports();

CREATE TRIGGER workspace_secrets_changed AFTER INSERT OR DELETE ON public.workspace_secrets FOR EACH ROW EXECUTE FUNCTION notify_workspace_secrets();

create view grants with (security_invoker=true) as
 SELECT machines.cell_id,
    machines.organization_id,
    machines.kind,
    machines.id,
    machines.residency,
    machines.grant_cpu_millis AS cpu_millis,
    machines.grant_memory_mib AS memory_mib,
    machines.grant_disk_gib AS disk_gib,
    false AS is_reserved
   FROM machines
UNION ALL
 SELECT o.cell_id,
    o.organization_id,
    'workspace'::text AS kind,
    o.workspace_id AS id,
    'resident'::text AS residency,
    ((o.progress #>> '{reserved,cpu_millis}'::text[]))::integer AS cpu_millis,
    ((o.progress #>> '{reserved,memory_mib}'::text[]))::integer AS memory_mib,
    ((o.progress #>> '{reserved,disk_gib}'::text[]))::integer AS disk_gib,
    true AS is_reserved
   FROM operations o
  WHERE ((o.completed_at IS NULL) AND (o.state = 'running'::text) AND (o.cell_id IS NOT NULL) AND ((o.progress #> '{reserved}'::text[]) IS NOT NULL) AND (jsonb_typeof((o.progress #> '{reserved}'::text[])) = 'object'::text)); -- select to berth_cell
