-- Archives of what is kept of a person, or of an organization. They are made by whichever api has claimed them; an attempt that was given
-- up writes nothing any more, and its parts go.
create table exports (
  id uuid primary key,
  organization_id uuid references organizations (id), -- null: of the account of whoever asked for it
  requested_by uuid not null references people (id),
  state text not null check (state in ('queued', 'running', 'ready', 'failed', 'expired')),
  failure text check (failure in ('export_too_large', 'internal_error')),
  attempt integer not null default 0,
  next_try_at timestamptz not null, -- until then it is another one's, or waits after a failure
  size_bytes bigint,
  sha256 text,
  created_at timestamptz not null,
  completed_at timestamptz,
  expires_at timestamptz,
  check ((state = 'failed') = (failure is not null))
);
create unique index exports_under_way on exports (coalesce(organization_id, requested_by)) where state in ('queued', 'running');
create index exports_waiting on exports (next_try_at) where state in ('queued', 'running');
create index exports_by_end on exports (expires_at) where state = 'ready';
create index exports_by_age on exports (created_at);
create index exports_of_organization on exports (organization_id, uuid_send(id) desc) where organization_id is not null;
create index exports_of_account on exports (requested_by, uuid_send(id) desc) where organization_id is null;

create table export_parts (
  export_id uuid not null references exports (id) on delete cascade,
  attempt integer not null,
  number integer not null,
  bytes bytea not null,
  primary key (export_id, attempt, number)
);
alter table export_parts alter column bytes set storage external; -- they are compressed already
