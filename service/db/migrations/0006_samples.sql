-- What machines use, by workspace and hour. A machine's counters grow from its start; what they grew by since they were last read is
-- added to the hour in which they are read, in one statement with the reading, so that a sample that is told twice adds nothing.

create table usage_samples (
  workspace_id uuid not null, -- outlives the workspace's row
  hour timestamptz not null,
  organization_id uuid not null references organizations,
  cpu_usec bigint not null default 0 check (cpu_usec >= 0),
  memory_byte_ms numeric not null default 0 check (memory_byte_ms >= 0),
  disk_byte_ms numeric not null default 0 check (disk_byte_ms >= 0),
  rx_bytes bigint not null default 0 check (rx_bytes >= 0),
  tx_bytes bigint not null default 0 check (tx_bytes >= 0),
  sampled_ms bigint not null default 0 check (sampled_ms >= 0), -- for how long of the hour a machine was resident
  primary key (workspace_id, hour)
);
create index usage_samples_by_organization on usage_samples (organization_id, hour);
create index usage_samples_by_hour on usage_samples (hour);

-- The last counters of each machine: workspace and fence name one machine and no other.
create table usage_counters (
  workspace_id uuid not null,
  fence bigint not null,
  cpu_usec bigint not null,
  rx_bytes bigint not null,
  tx_bytes bigint not null,
  read_at timestamptz not null,
  primary key (workspace_id, fence)
);
create index usage_counters_by_time on usage_counters (read_at);

grant select on usage_samples to berth_api;
grant select, insert, update, delete on usage_samples, usage_counters to berth_cell;
