-- What was used becomes entries: one for each workspace or volume and hour, written when the hour is final and never changed. What comes
-- to an hour after that is an entry of its own. Units are whole, and rounded down for each hour (App, "Usage facts").

-- Samples that no entry has yet, or that have grown since.
alter table usage_samples
  add column is_open boolean not null default true,
  add column entries integer not null default 0;
alter table volume_usage_samples
  add column is_open boolean not null default true,
  add column entries integer not null default 0;

create function usage_gib_seconds(byte_ms numeric) returns bigint language sql immutable strict parallel safe as $$
  select div(byte_ms, 1073741824000)::bigint
$$;

create table usage_entries (
  subject_kind text not null check (subject_kind in ('workspace', 'volume')),
  subject_id uuid not null, -- outlives its row
  hour timestamptz not null,
  organization_id uuid not null references organizations,
  project_id uuid references projects,
  entry integer not null check (entry >= 0), -- 0: the hour as it became final; others: what came later
  cpu_seconds bigint not null default 0,
  memory_gib_seconds bigint not null default 0,
  storage_gib_seconds bigint not null default 0,
  egress_bytes bigint not null default 0,
  ingress_bytes bigint not null default 0,
  volume_storage_gib_seconds bigint not null default 0,
  written_at timestamptz not null,
  unique nulls not distinct (subject_id, hour, organization_id, project_id, entry)
);

-- The sums of the entries of a project's hour, so that a total reads as many rows as there are hours.
create table usage_hours (
  organization_id uuid not null references organizations,
  hour timestamptz not null,
  project_id uuid references projects,
  cpu_seconds bigint not null default 0,
  memory_gib_seconds bigint not null default 0,
  storage_gib_seconds bigint not null default 0,
  egress_bytes bigint not null default 0,
  ingress_bytes bigint not null default 0,
  volume_storage_gib_seconds bigint not null default 0,
  unique nulls not distinct (organization_id, hour, project_id)
);

-- When everything that runs on the cell was last read; null: never since this is kept.
alter table cells add column measured_at timestamptz;
