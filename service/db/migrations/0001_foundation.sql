-- Everything that Berth keeps: tenants, templates, workspaces, operations, credentials.
-- Times are always parameters of a statement, never now(): there is one clock, the service's.
-- Ids are UUIDv7 made by the service.

create table plans (
  id uuid primary key,
  slug text not null unique,
  name text not null,
  -- null means without limit
  concurrent_workspaces integer check (concurrent_workspaces >= 0),
  cpu_millis integer check (cpu_millis > 0),
  memory_mib integer check (memory_mib > 0),
  disk_gib integer check (disk_gib > 0),
  -- App, Reasons: why 402 entitlement_required answers every start, null when starts are allowed
  refuses_starts text check (refuses_starts in ('no_plan', 'limits_missing', 'payment_past_due', 'unpaid', 'operator_hold')),
  created_at timestamptz not null
);

create table organizations (
  id uuid primary key,
  name text not null,
  slug text not null unique,
  plan_id uuid not null references plans,
  -- App, Reasons of 402 allowance_exhausted; null while there is allowance
  allowance_exhausted text check (allowance_exhausted in ('allowance_used', 'overage_paused', 'spend_cap_reached')),
  created_at timestamptz not null
);

create table projects (
  id uuid primary key,
  organization_id uuid not null references organizations,
  name text not null,
  slug text not null,
  created_at timestamptz not null,
  unique (organization_id, slug)
);

create table people (
  id uuid primary key,
  email text not null unique,
  email_verified boolean not null default false,
  display_name text,
  mfa_enabled boolean not null default false,
  created_at timestamptz not null
);

create table memberships (
  organization_id uuid not null references organizations,
  person_id uuid not null references people,
  role text not null check (role in ('owner', 'admin', 'member', 'billing')),
  created_at timestamptz not null,
  primary key (organization_id, person_id)
);
create index memberships_by_person on memberships (person_id);

create table person_sessions (
  id uuid primary key,
  person_id uuid not null references people,
  token_sha256 bytea not null unique,
  created_at timestamptz not null,
  last_used_at timestamptz not null,
  expires_at timestamptz not null,
  revoked_at timestamptz
);

create table api_keys (
  id uuid primary key,
  key_id text not null unique,
  secret_sha256 bytea not null,
  organization_id uuid not null references organizations,
  project_id uuid not null references projects,
  name text not null default '',
  tool_permissions text[] not null,
  created_at timestamptz not null,
  expires_at timestamptz,
  revoked_at timestamptz,
  -- tokens of before a narrowing of the tools are refused (401 revoked_api_key_tools)
  tools_changed_at timestamptz
);

create table templates (
  id uuid primary key,
  organization_id uuid references organizations, -- null: a template of the platform
  slug text not null,
  created_at timestamptz not null,
  archived_at timestamptz,
  unique nulls not distinct (organization_id, slug)
);

create table template_versions (
  id uuid primary key,
  template_id uuid not null references templates,
  version integer not null check (version > 0),
  layered boolean not null,
  layers text[] not null, -- SHA-256 of EROFS images, lowest first
  settings jsonb not null, -- env, inputs, defaults, ceiling
  created_at timestamptz not null,
  published_at timestamptz,
  archived_at timestamptz,
  unique (template_id, version)
);

create table cells (
  id uuid primary key,
  name text not null unique,
  endpoint text not null,
  engine text,
  capacity_cpu_millis integer,
  capacity_memory_mib integer,
  capacity_disk_gib integer,
  created_at timestamptz not null,
  seen_at timestamptz
);

create table workspaces (
  id uuid primary key,
  organization_id uuid not null references organizations,
  project_id uuid not null references projects,
  key text not null,
  template_version_id uuid not null references template_versions,
  observed_state text not null check (observed_state in ('creating', 'starting', 'running', 'suspending', 'suspended',
    'resuming', 'forking', 'stopping', 'failed', 'deleting', 'deleted')),
  desired_state text not null check (desired_state in ('running', 'suspended', 'deleted')),
  pending_reason text,
  ended_reason text,
  lifetime text not null check (lifetime in ('persistent', 'session')),
  mode text not null check (mode in ('processful', 'file_first')),
  purpose text not null default 'standard' check (purpose in ('standard', 'template_draft', 'template_test')),
  disk_layout text not null check (disk_layout in ('legacy', 'layered')),
  origin jsonb,
  caps jsonb not null default '{}',
  ceiling_cpu_millis integer not null,
  ceiling_memory_mib integer not null,
  ceiling_disk_gib integer not null,
  -- what the running machine holds; null when none
  grant_cpu_millis integer,
  grant_memory_mib integer,
  grant_disk_gib integer,
  inputs jsonb not null default '{}',
  startup jsonb,
  tree_revision bigint,
  -- the machine: which computer, which incarnation, which disk, which checkpoint it would resume from
  cell_id uuid references cells,
  ownership_epoch bigint not null default 0,
  disk text,
  checkpoint_id uuid,
  -- idleness
  idle_policy text,
  active_at timestamptz not null,       -- last activity of any kind
  tool_call_at timestamptz,             -- last tool call
  busy_until timestamptz,               -- a command started through exec counts until then
  keepalive_until timestamptz,
  suspend_requested_at timestamptz,
  suspend_after_seconds integer,
  suspend_not_before timestamptz,
  -- tokens issued at or before are refused (401 revoked_watermark)
  tokens_revoked_before timestamptz,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  deleted_at timestamptz,
  check ((deleted_at is null) = (desired_state <> 'deleted'))
);
create index workspaces_by_project on workspaces (project_id, id desc);
create index workspaces_by_organization on workspaces (organization_id, id desc);
create index workspaces_on_cell on workspaces (cell_id) where observed_state <> 'deleted';
create index workspaces_live on workspaces (organization_id) where deleted_at is null;

-- Which workspace a key names. It outlives the workspace's row: a key is never used again, but for ended sessions
-- and forks that captured nothing.
create table workspace_keys (
  organization_id uuid not null references organizations,
  key text not null,
  workspace_id uuid not null,
  reusable boolean not null default false, -- the workspace ended in a way that frees the key
  primary key (organization_id, key)
);

create table checkpoints (
  id uuid primary key,
  workspace_id uuid not null references workspaces,
  cell_id uuid not null references cells,
  operation_id uuid not null,
  kind text not null check (kind in ('suspend', 'snapshot', 'fork', 'recovery')),
  label text,
  epoch bigint not null,
  engine text not null,
  size_bytes bigint not null,
  resources jsonb not null,
  created_at timestamptz not null,
  expires_at timestamptz
);
create index checkpoints_by_workspace on checkpoints (workspace_id, id desc);

create sequence fences;

create table operations (
  id uuid primary key,
  organization_id uuid not null references organizations,
  project_id uuid not null references projects,
  workspace_id uuid references workspaces,
  source_workspace_id uuid references workspaces, -- of a fork
  kind text not null check (kind in ('open', 'suspend', 'resume', 'fork', 'snapshot', 'restore', 'delete', 'reset',
    'layer_snapshot', 'volume_create', 'volume_delete', 'volume_attach', 'volume_detach', 'template_build', 'move')),
  state text not null check (state in ('queued', 'capacity_pending', 'running', 'succeeded', 'failed', 'canceled')),
  state_reason text,
  input jsonb not null default '{}',
  result jsonb,
  error jsonb,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  started_at timestamptz,
  completed_at timestamptz,
  deadline_at timestamptz, -- of the wait for capacity
  -- the runner's own: where it runs, who has it, how far it is
  cell_id uuid references cells,
  attempt integer not null default 0,
  fence bigint not null default 0, -- of the attempt; hostd refuses lower ones
  step text,                       -- last finished step
  progress jsonb not null default '{}',
  check ((completed_at is null) = (state in ('queued', 'capacity_pending', 'running')))
);
create index operations_by_workspace on operations (workspace_id, id desc);
create index operations_open on operations (cell_id, id) where completed_at is null;

-- One row a workspace says which operation holds it: one active operation each, by constraint. A fork holds two.
create table workspace_holds (
  workspace_id uuid primary key references workspaces,
  operation_id uuid not null references operations,
  gate text not null check (gate in ('open', 'read_only', 'closed')) -- what tool calls meet meanwhile
);
create index workspace_holds_by_operation on workspace_holds (operation_id);

create table idempotency_entries (
  principal text not null,
  route text not null,
  key text not null,
  fingerprint bytea not null,
  outcome jsonb not null,
  created_at timestamptz not null,
  primary key (principal, route, key)
);
create index idempotency_entries_by_age on idempotency_entries (created_at);

create table agent_sessions (
  id uuid primary key,
  workspace_id uuid not null references workspaces,
  principal_type text not null check (principal_type in ('api_key', 'user')),
  principal_id uuid not null,
  agent_label text not null,
  created_at timestamptz not null,
  last_used_at timestamptz not null,
  unique (workspace_id, principal_type, principal_id, agent_label)
);

create table signing_keys (
  kid text primary key,
  public_jwk jsonb not null,
  created_at timestamptz not null,
  retired_at timestamptz -- no longer signs; verifies for as long as its last token may live
);

create table rate_buckets (
  name text primary key,
  tokens double precision not null,
  updated_at timestamptz not null
);

-- Those who wait are woken by the database itself, so that no writer can forget it.
create function notify_operation() returns trigger language plpgsql as $$
begin
  perform pg_notify('berth_operation', new.id::text);
  return null;
end $$;
create trigger operation_changed after insert or update of state, state_reason on operations
  for each row execute function notify_operation();

create function notify_workspace() returns trigger language plpgsql as $$
begin
  perform pg_notify('berth_workspace', new.id::text);
  return null;
end $$;
create trigger workspace_changed after insert or update of observed_state, desired_state, ownership_epoch, deleted_at,
  tokens_revoked_before, suspend_requested_at, idle_policy on workspaces
  for each row execute function notify_workspace();

create function notify_hold() returns trigger language plpgsql as $$
begin
  perform pg_notify('berth_workspace', coalesce(new.workspace_id, old.workspace_id)::text);
  return null;
end $$;
create trigger hold_changed after insert or update or delete on workspace_holds
  for each row execute function notify_hold();

create function notify_api_key() returns trigger language plpgsql as $$
begin
  perform pg_notify('berth_api_key', new.id::text);
  return null;
end $$;
create trigger api_key_changed after update of revoked_at, tool_permissions, expires_at on api_keys
  for each row execute function notify_api_key();

-- Two roles: what each process may touch. The names are the same in every installation.
do $$
begin
  if not exists (select from pg_roles where rolname = 'berth_api') then create role berth_api nologin; end if;
  if not exists (select from pg_roles where rolname = 'berth_cell') then create role berth_cell nologin; end if;
end $$;
grant select on all tables in schema public to berth_api, berth_cell;
grant insert, update on workspaces, workspace_keys, operations, workspace_holds, idempotency_entries, agent_sessions,
  rate_buckets, person_sessions to berth_api;
grant insert, update on signing_keys to berth_api;
grant delete on workspace_holds, idempotency_entries, workspace_keys to berth_api;
grant insert, update on cells, checkpoints, workspaces, operations, workspace_holds, workspace_keys to berth_cell;
grant delete on workspace_holds, checkpoints, workspaces, operations, agent_sessions, idempotency_entries to berth_cell;
grant usage on sequence fences to berth_api, berth_cell;
-- With a server of one's own, one login serves both processes and takes its role on connecting.
grant berth_api, berth_cell to current_user;
