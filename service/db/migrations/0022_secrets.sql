-- Keys that data keys are wrapped for: their public halves. The private ones are files of the cells' users.
create table sealing_keys (
  key_id text primary key, -- the thumbprint of the public half
  public_jwk jsonb not null,
  created_at timestamptz not null -- the newest is sealed for
);

create table secrets (
  id uuid primary key,
  organization_id uuid not null references organizations (id),
  project_id uuid references projects (id), -- null: the organization's
  name text not null,
  description text,
  allowed_project_ids uuid[], -- null: every project of the organization
  allowed_workspace_ids uuid[], -- null: every workspace of those projects
  allowed_tools text[] not null,
  version integer not null, -- the newest, whose value is used
  created_at timestamptz not null,
  updated_at timestamptz not null,
  deleted_at timestamptz,
  check (project_id is null or allowed_project_ids is null)
);
create unique index secrets_of_project on secrets (project_id, name) where deleted_at is null and project_id is not null;
create unique index secrets_of_organization on secrets (organization_id, name) where deleted_at is null and project_id is null;
-- Lists, and lists with those that are deleted: decision 122.
create index secrets_newest_of_project on secrets (project_id, uuid_send(id) desc) where project_id is not null;
create index secrets_live_of_project on secrets (project_id, uuid_send(id) desc) where project_id is not null and deleted_at is null;
create index secrets_newest_of_organization on secrets (organization_id, uuid_send(id) desc) where project_id is null;
create index secrets_live_of_organization on secrets (organization_id, uuid_send(id) desc) where project_id is null and deleted_at is null;

create table secret_versions (
  id uuid primary key, -- what lists page by
  secret_id uuid not null references secrets (id),
  version integer not null check (version > 0),
  created_at timestamptz not null,
  erased_at timestamptz,
  -- A value, sealed by a data key of its own, and that data key, sealed for a sealing key. All gone when it is erased.
  key_id text references sealing_keys (key_id),
  wrapped_key text,
  ciphertext bytea,
  unique (secret_id, version),
  check ((erased_at is null) = (key_id is not null)),
  check ((key_id is null) = (wrapped_key is null)),
  check ((key_id is null) = (ciphertext is null))
);
create index secret_versions_newest on secret_versions (secret_id, uuid_send(id) desc);
create index secret_versions_by_key on secret_versions (key_id) where key_id is not null;

-- Names of secrets, which a command of the workspace gets the values of.
create table workspace_secrets (
  workspace_id uuid not null references workspaces (id) on delete cascade,
  project_id uuid not null references projects (id), -- the workspace's
  name text not null,
  primary key (workspace_id, name)
);
create index workspace_secrets_by_name on workspace_secrets (project_id, name);

-- What was erased goes out of the table within minutes, however few rows it is: decision 131.
alter table secret_versions set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 0,
  toast.autovacuum_vacuum_scale_factor = 0, toast.autovacuum_vacuum_threshold = 0);

-- The cell keeps in memory whether a workspace has any, for while the database is away.
create function notify_workspace_secrets() returns trigger language plpgsql as $$
declare
  bound uuid := coalesce(new.workspace_id, old.workspace_id);
begin
  perform pg_notify(cell_channel('berth_workspace', (select cell_id from workspaces where id = bound)), bound::text);
  return null;
end $$;
create trigger workspace_secrets_changed after insert or delete on workspace_secrets
  for each row execute function notify_workspace_secrets();
