-- Where a value is put into requests; null: it is in the environment of commands.
alter table secrets add column hosts jsonb;

-- Authorities that workspaces trust for those hosts. A workspace and its forks have the same one: what runs in a fork knows it already.
create table authorities (
  id uuid primary key,
  certificate text not null, -- PEM
  key_id text not null references sealing_keys (key_id),
  sealed_key text not null, -- the private key, sealed for a sealing key
  created_at timestamptz not null
);
create index authorities_by_key on authorities (key_id);

create table workspace_authorities (
  workspace_id uuid primary key references workspaces (id) on delete cascade,
  authority_id uuid not null references authorities (id)
);
create index workspace_authorities_by_authority on workspace_authorities (authority_id);

-- Which connections of a machine are led through the proxy follows what is bound to its workspace, and what that means.
create or replace function notify_workspace_secrets() returns trigger language plpgsql as $$
declare
  bound uuid := coalesce(new.workspace_id, old.workspace_id);
  of_cell uuid := (select cell_id from workspaces where id = bound);
begin
  perform pg_notify(cell_channel('berth_workspace', of_cell), bound::text);
  perform pg_notify(cell_channel('berth_egress', of_cell), bound::text);
  return null;
end $$;

create function notify_secret_hosts() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' or old.hosts is distinct from new.hosts or old.deleted_at is distinct from new.deleted_at then
    perform pg_notify(cell_channel('berth_egress', w.cell_id), w.id::text)
    from workspace_secrets b join workspaces w on w.id = b.workspace_id
    where b.name = new.name and w.organization_id = new.organization_id and (new.project_id is null or b.project_id = new.project_id);
  end if;
  return null;
end $$;
create trigger secret_hosts_changed after insert or update of hosts, deleted_at on secrets
  for each row execute function notify_secret_hosts();
