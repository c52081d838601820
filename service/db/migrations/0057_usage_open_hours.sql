-- What samples have that no entry has yet, summed for each project's hour: a total reads as many rows as there are hours, and not as many
-- as there are workspaces. Triggers alone write it, as the owner: what samples grow by is added, what becomes an entry is taken off. So
-- usage_hours and this together are the sum of the samples, whichever version of the service writes them.
create table usage_open_hours (
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

-- Adds to a project's hour; in the order of its keys, so that two who add at once wait for each other and never both.
create function add_open_usage(usage_open_hours[]) returns void language sql security definer set search_path = public, pg_temp as $$
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
$$;

-- The whole units of samples, rounded down for each: those of after a change count, those of before it do not any more.
create function usage_samples_grew() returns trigger language plpgsql security definer set search_path = public, pg_temp as $$
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
end $$;
create function volume_usage_samples_grew() returns trigger language plpgsql security definer set search_path = public, pg_temp as $$
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
end $$;
create trigger usage_samples_added after insert on usage_samples
  referencing new table as after_it for each statement execute function usage_samples_grew();
create trigger usage_samples_changed after update on usage_samples
  referencing old table as before_it new table as after_it for each statement execute function usage_samples_grew();
create trigger volume_usage_samples_added after insert on volume_usage_samples
  referencing new table as after_it for each statement execute function volume_usage_samples_grew();
create trigger volume_usage_samples_changed after update on volume_usage_samples
  referencing old table as before_it new table as after_it for each statement execute function volume_usage_samples_grew();

create function usage_entries_written() returns trigger language plpgsql security definer set search_path = public, pg_temp as $$
begin
  perform add_open_usage(array(
    select row(organization_id, hour, project_id, -cpu_seconds, -memory_gib_seconds, -storage_gib_seconds, -egress_bytes, -ingress_bytes,
      -volume_storage_gib_seconds)::usage_open_hours from after_it));
  delete from usage_open_hours o using (select distinct organization_id, hour, project_id from after_it) a
    where o.organization_id = a.organization_id and o.hour = a.hour and o.project_id is not distinct from a.project_id
      and (o.cpu_seconds, o.memory_gib_seconds, o.storage_gib_seconds, o.egress_bytes, o.ingress_bytes, o.volume_storage_gib_seconds)
        = (0, 0, 0, 0, 0, 0);
  return null;
end $$;
create trigger usage_entries_added after insert on usage_entries
  referencing new table as after_it for each statement execute function usage_entries_written();

-- What is open at this moment. Nobody adds to it meanwhile: the triggers hold both tables until the commit.
select add_open_usage(array(
  select row(organization_id, hour, project_id, (cpu_usec / 1000000), usage_gib_seconds(memory_byte_ms),
        usage_gib_seconds(disk_byte_ms + checkpoint_byte_ms), (tx_bytes + port_sent_bytes), (rx_bytes + port_received_bytes),
        0::bigint)::usage_open_hours from usage_samples where is_open));
select add_open_usage(array(
  select row(organization_id, hour, project_id, 0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint,
        usage_gib_seconds(stored_byte_ms))::usage_open_hours from volume_usage_samples where is_open));
select add_open_usage(array(
  select row(e.organization_id, e.hour, e.project_id, -e.cpu_seconds, -e.memory_gib_seconds, -e.storage_gib_seconds, -e.egress_bytes,
    -e.ingress_bytes, -e.volume_storage_gib_seconds)::usage_open_hours
  from usage_entries e join usage_samples s on s.workspace_id = e.subject_id and s.hour = e.hour and s.organization_id = e.organization_id
    and s.project_id is not distinct from e.project_id
  where s.is_open and s.entries > 0));
select add_open_usage(array(
  select row(e.organization_id, e.hour, e.project_id, 0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint,
    -e.volume_storage_gib_seconds)::usage_open_hours
  from usage_entries e join volume_usage_samples s on s.volume_id = e.subject_id and s.hour = e.hour
  where s.is_open and s.entries > 0));
