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
); -- insert, select, update to berth_api; delete to berth_cell; select (workspace_id) to berth_cell

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
); -- select to berth_api; select (id, tool_permissions, expires_at, revoked_at, tools_changed_at) to berth_cell

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
  UNIQUE (name),
  PRIMARY KEY (id)
); -- select to berth_api; insert, select, update to berth_cell

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
  PRIMARY KEY (id),
  FOREIGN KEY (cell_id) REFERENCES cells(id),
  FOREIGN KEY (workspace_id) REFERENCES workspaces(id),
  CHECK ((kind = ANY (ARRAY['suspend'::text, 'snapshot'::text, 'fork'::text, 'recovery'::text, 'parked'::text, 'layer'::text])))
); -- select to berth_api; delete, insert, select, update to berth_cell

create table idempotency_entries (
  principal text not null,
  route text not null,
  key text not null,
  fingerprint bytea not null,
  outcome jsonb not null,
  created_at timestamp with time zone not null,
  PRIMARY KEY (principal, route, key)
); -- delete, insert, select, update to berth_api; delete to berth_cell; select (principal, route, key, created_at) to berth_cell

create table installation (
  id uuid default gen_random_uuid() not null,
  is_only boolean default true not null,
  UNIQUE (is_only),
  PRIMARY KEY (id),
  CHECK (is_only)
); -- select (id) to berth_api; select (id) to berth_cell

create table memberships (
  organization_id uuid not null,
  person_id uuid not null,
  role text not null,
  created_at timestamp with time zone not null,
  PRIMARY KEY (organization_id, person_id),
  FOREIGN KEY (organization_id) REFERENCES organizations(id),
  FOREIGN KEY (person_id) REFERENCES people(id),
  CHECK ((role = ANY (ARRAY['owner'::text, 'admin'::text, 'member'::text, 'billing'::text])))
); -- select to berth_api; select (organization_id, person_id, role) to berth_cell

create table operations (
  id uuid not null,
  organization_id uuid not null,
  project_id uuid not null,
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
  PRIMARY KEY (id),
  FOREIGN KEY (cell_id) REFERENCES cells(id),
  FOREIGN KEY (organization_id) REFERENCES organizations(id),
  FOREIGN KEY (project_id) REFERENCES projects(id),
  FOREIGN KEY (source_workspace_id) REFERENCES workspaces(id),
  FOREIGN KEY (workspace_id) REFERENCES workspaces(id),
  CHECK (((completed_at IS NULL) = (state = ANY (ARRAY['queued'::text, 'capacity_pending'::text, 'running'::text])))),
  CHECK ((kind = ANY (ARRAY['open'::text, 'suspend'::text, 'resume'::text, 'fork'::text, 'snapshot'::text, 'restore'::text, 'delete'::text, 'reset'::text, 'layer_snapshot'::text, 'volume_create'::text, 'volume_delete'::text, 'volume_attach'::text, 'volume_detach'::text, 'template_build'::text, 'move'::text]))),
  CHECK ((state = ANY (ARRAY['queued'::text, 'capacity_pending'::text, 'running'::text, 'succeeded'::text, 'failed'::text, 'canceled'::text])))
); -- insert, select, update to berth_api; delete, insert, select, update to berth_cell

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
  UNIQUE (slug),
  PRIMARY KEY (id),
  FOREIGN KEY (plan_id) REFERENCES plans(id),
  CHECK ((allowance_exhausted = ANY (ARRAY['allowance_used'::text, 'overage_paused'::text, 'spend_cap_reached'::text]))),
  CHECK ((refuses_starts = ANY (ARRAY['no_plan'::text, 'limits_missing'::text, 'payment_past_due'::text, 'unpaid'::text, 'operator_hold'::text])))
); -- select to berth_api; select (id, allowance_exhausted) to berth_cell

create table people (
  id uuid not null,
  email text not null,
  email_verified boolean default false not null,
  display_name text,
  mfa_enabled boolean default false not null,
  created_at timestamp with time zone not null,
  UNIQUE (email),
  PRIMARY KEY (id)
); -- select to berth_api

create table person_sessions (
  id uuid not null,
  person_id uuid not null,
  token_sha256 bytea not null,
  created_at timestamp with time zone not null,
  last_used_at timestamp with time zone not null,
  expires_at timestamp with time zone not null,
  revoked_at timestamp with time zone,
  mfa_pending boolean default false not null,
  UNIQUE (token_sha256),
  PRIMARY KEY (id),
  FOREIGN KEY (person_id) REFERENCES people(id)
); -- insert, select, update to berth_api

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
  UNIQUE (slug),
  PRIMARY KEY (id),
  CHECK ((concurrent_workspaces >= 0)),
  CHECK ((cpu_millis > 0)),
  CHECK ((disk_gib > 0)),
  CHECK ((memory_mib > 0)),
  CHECK ((refuses_starts = ANY (ARRAY['no_plan'::text, 'limits_missing'::text, 'payment_past_due'::text, 'unpaid'::text, 'operator_hold'::text])))
); -- select to berth_api

create table projects (
  id uuid not null,
  organization_id uuid not null,
  name text not null,
  slug text not null,
  created_at timestamp with time zone not null,
  UNIQUE (organization_id, slug),
  PRIMARY KEY (id),
  FOREIGN KEY (organization_id) REFERENCES organizations(id)
); -- select to berth_api

create table rate_buckets (
  name text not null,
  tokens double precision not null,
  updated_at timestamp with time zone not null,
  PRIMARY KEY (name)
); -- insert, select, update to berth_api

create table signing_keys (
  kid text not null,
  public_jwk jsonb not null,
  created_at timestamp with time zone not null,
  retired_at timestamp with time zone,
  PRIMARY KEY (kid)
); -- insert, select, update to berth_api; select to berth_cell

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
  UNIQUE (template_id, version),
  PRIMARY KEY (id),
  FOREIGN KEY (template_id) REFERENCES templates(id),
  CHECK ((version > 0))
); -- select to berth_api; select to berth_cell

create table templates (
  id uuid not null,
  organization_id uuid,
  slug text not null,
  created_at timestamp with time zone not null,
  archived_at timestamp with time zone,
  UNIQUE NULLS NOT DISTINCT (organization_id, slug),
  PRIMARY KEY (id),
  FOREIGN KEY (organization_id) REFERENCES organizations(id)
); -- select to berth_api

create table usage_counters (
  workspace_id uuid not null,
  fence bigint not null,
  cpu_usec bigint not null,
  rx_bytes bigint not null,
  tx_bytes bigint not null,
  read_at timestamp with time zone not null,
  PRIMARY KEY (workspace_id, fence)
); -- delete, insert, select, update to berth_cell

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
  PRIMARY KEY (workspace_id, hour),
  FOREIGN KEY (organization_id) REFERENCES organizations(id),
  CHECK ((cpu_usec >= 0)),
  CHECK ((disk_byte_ms >= (0)::numeric)),
  CHECK ((memory_byte_ms >= (0)::numeric)),
  CHECK ((rx_bytes >= 0)),
  CHECK ((sampled_ms >= 0)),
  CHECK ((tx_bytes >= 0))
); -- select to berth_api; delete, insert, select, update to berth_cell

create table workspace_holds (
  workspace_id uuid not null,
  operation_id uuid not null,
  gate text not null,
  PRIMARY KEY (workspace_id),
  FOREIGN KEY (operation_id) REFERENCES operations(id),
  FOREIGN KEY (workspace_id) REFERENCES workspaces(id),
  CHECK ((gate = ANY (ARRAY['open'::text, 'read_only'::text, 'closed'::text])))
); -- delete, insert, select, update to berth_api; delete, insert, select, update to berth_cell

create table workspace_keys (
  organization_id uuid not null,
  key text not null,
  workspace_id uuid not null,
  reusable boolean default false not null,
  project_id uuid not null,
  PRIMARY KEY (organization_id, key),
  FOREIGN KEY (organization_id) REFERENCES organizations(id),
  FOREIGN KEY (project_id) REFERENCES projects(id)
); -- delete, insert, select, update to berth_api; delete, insert, select, update to berth_cell

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
  PRIMARY KEY (id),
  FOREIGN KEY (cell_id) REFERENCES cells(id),
  FOREIGN KEY (organization_id) REFERENCES organizations(id),
  FOREIGN KEY (project_id) REFERENCES projects(id),
  FOREIGN KEY (template_version_id) REFERENCES template_versions(id),
  CHECK (((deleted_at IS NULL) = (desired_state <> 'deleted'::text))),
  CHECK ((desired_state = ANY (ARRAY['running'::text, 'suspended'::text, 'deleted'::text]))),
  CHECK ((disk_layout = ANY (ARRAY['legacy'::text, 'layered'::text]))),
  CHECK ((lifetime = ANY (ARRAY['persistent'::text, 'session'::text]))),
  CHECK ((mode = ANY (ARRAY['processful'::text, 'file_first'::text]))),
  CHECK ((observed_state = ANY (ARRAY['creating'::text, 'starting'::text, 'running'::text, 'suspending'::text, 'suspended'::text, 'resuming'::text, 'forking'::text, 'stopping'::text, 'failed'::text, 'deleting'::text, 'deleted'::text]))),
  CHECK ((purpose = ANY (ARRAY['standard'::text, 'template_draft'::text, 'template_test'::text]))),
  CHECK ((residency = ANY (ARRAY['resident'::text, 'hibernated'::text, 'restoring'::text])))
); -- insert, select, update to berth_api; delete, insert, select, update to berth_cell

CREATE INDEX checkpoints_by_workspace ON public.checkpoints USING btree (workspace_id, id DESC);

CREATE INDEX idempotency_entries_by_age ON public.idempotency_entries USING btree (created_at);

CREATE INDEX memberships_by_person ON public.memberships USING btree (person_id);

CREATE INDEX operations_by_source ON public.operations USING btree (source_workspace_id) WHERE (source_workspace_id IS NOT NULL);

CREATE INDEX operations_by_workspace ON public.operations USING btree (workspace_id, id DESC);

CREATE INDEX operations_open ON public.operations USING btree (cell_id, id) WHERE (completed_at IS NULL);

CREATE INDEX person_sessions_by_person ON public.person_sessions USING btree (person_id);

CREATE INDEX usage_counters_by_time ON public.usage_counters USING btree (read_at);

CREATE INDEX usage_samples_by_hour ON public.usage_samples USING btree (hour);

CREATE INDEX usage_samples_by_organization ON public.usage_samples USING btree (organization_id, hour);

CREATE INDEX workspace_holds_by_operation ON public.workspace_holds USING btree (operation_id);

CREATE INDEX workspace_keys_by_workspace ON public.workspace_keys USING btree (workspace_id);

CREATE INDEX workspaces_by_desired_state ON public.workspaces USING btree (project_id, desired_state, lifetime, purpose, uuid_send(id) DESC);

CREATE INDEX workspaces_by_key ON public.workspaces USING btree (project_id, key text_pattern_ops);

CREATE INDEX workspaces_by_observed_state ON public.workspaces USING btree (project_id, observed_state, desired_state, lifetime, purpose, uuid_send(id) DESC);

CREATE INDEX workspaces_counted ON public.workspaces USING btree (organization_id) WHERE ((deleted_at IS NULL) AND (desired_state = 'running'::text));

CREATE INDEX workspaces_granted ON public.workspaces USING btree (cell_id) WHERE (grant_memory_mib IS NOT NULL);

CREATE INDEX workspaces_on_cell ON public.workspaces USING btree (cell_id) WHERE (observed_state <> 'deleted'::text);

CREATE INDEX workspaces_running ON public.workspaces USING btree (cell_id) WHERE (observed_state = 'running'::text);

CREATE INDEX workspaces_tombstones ON public.workspaces USING btree (deleted_at) WHERE (observed_state = 'deleted'::text);

create sequence fences;

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

CREATE OR REPLACE FUNCTION public.notify_hold()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform pg_notify('berth_workspace', coalesce(new.workspace_id, old.workspace_id)::text);
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
begin
  perform pg_notify('berth_operation', new.id::text);
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

CREATE OR REPLACE FUNCTION public.notify_workspace()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform pg_notify('berth_workspace', new.id::text);
  return null;
end $function$;

CREATE TRIGGER api_key_changed AFTER UPDATE OF revoked_at, tool_permissions, expires_at ON public.api_keys FOR EACH ROW EXECUTE FUNCTION notify_api_key();

CREATE TRIGGER hold_changed AFTER INSERT OR DELETE OR UPDATE ON public.workspace_holds FOR EACH ROW EXECUTE FUNCTION notify_hold();

CREATE TRIGGER idle_gap BEFORE UPDATE OF active_at ON public.workspaces FOR EACH ROW WHEN ((new.active_at >= (old.active_at + '00:00:10'::interval))) EXECUTE FUNCTION note_idle_gap();

CREATE TRIGGER membership_changed AFTER DELETE OR UPDATE OF role ON public.memberships FOR EACH ROW EXECUTE FUNCTION notify_membership();

CREATE TRIGGER operation_changed AFTER INSERT OR UPDATE OF state, state_reason ON public.operations FOR EACH ROW EXECUTE FUNCTION notify_operation();

CREATE TRIGGER signing_key_changed AFTER INSERT OR UPDATE OF retired_at ON public.signing_keys FOR EACH ROW EXECUTE FUNCTION notify_signing_key();

CREATE TRIGGER workspace_changed AFTER INSERT OR UPDATE OF observed_state, desired_state, ownership_epoch, deleted_at, tokens_revoked_before, suspend_requested_at, idle_policy, inputs ON public.workspaces FOR EACH ROW EXECUTE FUNCTION notify_workspace();
