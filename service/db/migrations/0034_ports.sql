-- Ports of workspaces that have a URL. One that was closed and is exposed again is another row: nothing of before opens it.
create table workspace_ports (
  id uuid primary key,
  workspace_id uuid not null references workspaces on delete cascade,
  port integer not null check (port between 1 and 65535),
  requests bigint not null default 0 check (requests >= 0),
  received_bytes bigint not null default 0 check (received_bytes >= 0), -- from visitors
  sent_bytes bigint not null default 0 check (sent_bytes >= 0), -- back to them
  last_request_at timestamptz,
  created_at timestamptz not null,
  unique (workspace_id, port)
);
create index workspace_ports_newest on workspace_ports (workspace_id, uuid_send(id) desc); -- decision 122

-- What lets visitors in, as digests alone: docs/decisions/0190.
create table port_credentials (
  id uuid primary key,
  port_id uuid not null references workspace_ports on delete cascade,
  kind text not null check (kind in ('token', 'link', 'cookie', 'callback')),
  sha256 bytea not null unique,
  path text, -- where a link leads
  created_at timestamptz not null,
  expires_at timestamptz, -- null: until it is revoked
  check ((kind = 'link') = (path is not null)),
  check ((kind = 'callback') = (expires_at is null))
);
create index port_credentials_by_port on port_credentials (port_id, kind);
create unique index port_credentials_callback on port_credentials (port_id) where kind = 'callback';
create index port_credentials_by_end on port_credentials (expires_at) where expires_at is not null;

-- The cell keeps credentials that it has found good, and hears of each that goes. What is new it finds when it is used.
create function notify_port() returns trigger language plpgsql as $$
begin
  perform pg_notify(cell_channel('berth_port', (select cell_id from workspaces where id = old.workspace_id)), old.id::text);
  return null;
end $$;
create trigger port_closed after delete on workspace_ports for each row execute function notify_port();

-- Of a port that was closed itself nothing is left to ask, and its own trigger has told it.
create function notify_port_credential() returns trigger language plpgsql as $$
declare
  cell uuid;
begin
  select w.cell_id into cell from workspace_ports p join workspaces w on w.id = p.workspace_id where p.id = old.port_id;
  if found then perform pg_notify(cell_channel('berth_port', cell), old.port_id::text); end if;
  return null;
end $$;
create trigger port_credential_gone after delete on port_credentials for each row execute function notify_port_credential();

-- Whoever deletes a workspace closes its ports.
create function close_ports() returns trigger language plpgsql security definer set search_path = public, pg_temp as $$
begin
  delete from workspace_ports where workspace_id = new.id;
  return null;
end $$;
create trigger workspace_ports_closed after update of deleted_at on workspaces
  for each row when (new.deleted_at is not null and old.deleted_at is null) execute function close_ports();
