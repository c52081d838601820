-- What a template version lets out at most; null: no ceiling.
alter table template_versions add column egress jsonb;

-- Policies of projects, and of workspaces in their place. The newest of a scope counts; none is ever changed.
create table egress_versions (
  id uuid primary key,
  organization_id uuid not null references organizations,
  project_id uuid not null references projects,
  workspace_id uuid references workspaces on delete cascade, -- null: the project's own
  version integer not null check (version > 0),
  mode text check (mode in ('allow_all', 'allowlist', 'deny_all')), -- null: the override was taken back
  rules jsonb not null default '[]',
  cidrs text[] not null default '{}',
  created_by_type text not null check (created_by_type in ('user', 'api_key')),
  created_by_id uuid not null,
  created_at timestamptz not null,
  check (mode is not null or workspace_id is not null),
  check (mode = 'allowlist' or (rules = '[]' and cidrs = '{}'))
);
create unique index egress_versions_of_project on egress_versions (project_id, version) where workspace_id is null;
create unique index egress_versions_of_workspace on egress_versions (workspace_id, version) where workspace_id is not null;

-- What the host has said last of a workspace's machine: by its epoch and fence a word about an earlier machine is known for one.
create table workspace_egress (
  workspace_id uuid primary key references workspaces on delete cascade,
  epoch bigint not null,
  fence bigint not null,
  revision text not null,
  state text not null check (state in ('enforced', 'failed')),
  acknowledged_at timestamptz not null
);

-- What policies refused in the last hours. One row for each time that a host began to count; `target` is the address, or the name that was asked for.
create table egress_denials (
  workspace_id uuid not null references workspaces on delete cascade,
  protocol text not null check (protocol in ('tcp', 'udp', 'dns', 'other')),
  target text not null,
  port integer not null,
  first_at timestamptz not null,
  name text,
  address text,
  count bigint not null,
  last_at timestamptz not null,
  primary key (workspace_id, protocol, target, port, first_at)
);
create index egress_denials_by_age on egress_denials (last_at);

-- A workspace's own cell hears of its override. A project's policy is told to every cell: whose machines may be starting there, no row says yet.
create function notify_egress() returns trigger language plpgsql as $$
begin
  if new.workspace_id is null then
    perform pg_notify(cell_channel('berth_egress', id), 'project:' || new.project_id) from cells;
  else
    perform pg_notify(cell_channel('berth_egress', (select cell_id from workspaces where id = new.workspace_id)), new.workspace_id::text);
  end if;
  return null;
end $$;
create trigger egress_changed after insert on egress_versions for each row execute function notify_egress();
