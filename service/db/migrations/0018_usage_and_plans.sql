-- Whose a sample is, at the moment it is taken; what is stored without a machine; time that no clock jump stretches; what a plan misses.
-- A cell of before names the key that goes: it meters nothing until it is replaced.
-- migrate: needs 0018

alter table usage_samples
  -- null: taken before this was kept, of a workspace whose row was gone already
  add column project_id uuid references projects,
  -- memory images of suspended workspaces and of snapshots; what their disks take is in disk_byte_ms
  add column checkpoint_byte_ms numeric not null default 0 check (checkpoint_byte_ms >= 0);
update usage_samples s set project_id = coalesce(
  (select w.project_id from workspaces w where w.id = s.workspace_id),
  -- a key that was used again names another workspace by now, of the same organization or none
  (select k.project_id from workspace_keys k where k.workspace_id = s.workspace_id limit 1));
-- One that moves within the hour has two.
alter table usage_samples drop constraint usage_samples_pkey;
alter table usage_samples
  add constraint usage_samples_key unique nulls not distinct (workspace_id, hour, organization_id, project_id);
create index usage_samples_by_project on usage_samples (project_id, hour);

-- A reading says when it was taken by two clocks: the wall's, and that of the process that took it, which nobody sets.
alter table usage_counters add column run uuid, add column monotonic_ms bigint;

-- When the storage of a workspace was last counted, beside its machine's counters.
create table usage_storage (
  workspace_id uuid primary key, -- outlives the workspace's row
  read_at timestamptz not null,  -- of its checkpoints
  run uuid not null,
  monotonic_ms bigint not null,
  disk_read_at timestamptz,      -- of its disk, where it had no machine
  disk_run uuid,
  disk_monotonic_ms bigint
);
create index usage_storage_by_time on usage_storage (read_at);

-- Between two readings, at most `most_ms`; null where there is no earlier one. Within a process its own clock counts.
create function usage_elapsed_ms(read_at timestamptz, run uuid, monotonic_ms bigint, now timestamptz, now_run uuid, now_monotonic_ms bigint, most_ms bigint)
  returns bigint language sql immutable as $$
  select case when read_at is null then null
    else least(greatest(case when run = now_run then now_monotonic_ms - monotonic_ms else (extract(epoch from now - read_at) * 1000)::bigint end, 0), most_ms) end
$$;

-- A limit of a plan is null where there is none. What a plan should say and does not is named: every start is refused until it does
-- (402 entitlement_required, limits_missing).
alter table plans add column missing_limits text[] not null default '{}'
  check (missing_limits <@ array['concurrent_workspaces', 'cpu_millis', 'memory_mib', 'disk_gib']);
update plans set missing_limits = array_remove(array[
  case when concurrent_workspaces is null then 'concurrent_workspaces' end, case when cpu_millis is null then 'cpu_millis' end,
  case when memory_mib is null then 'memory_mib' end, case when disk_gib is null then 'disk_gib' end], null)
where refuses_starts = 'limits_missing';
alter table plans
  add check (concurrent_workspaces is null or not 'concurrent_workspaces' = any(missing_limits)),
  add check (cpu_millis is null or not 'cpu_millis' = any(missing_limits)),
  add check (memory_mib is null or not 'memory_mib' = any(missing_limits)),
  add check (disk_gib is null or not 'disk_gib' = any(missing_limits));
-- The reason follows from that column alone. Who was refused for it, and misses nothing, is refused all the same.
update plans set refuses_starts = case when missing_limits = '{}' then 'operator_hold' end where refuses_starts = 'limits_missing';
update organizations set refuses_starts = 'operator_hold' where refuses_starts = 'limits_missing';
alter table plans drop constraint plans_refuses_starts_check;
alter table plans add constraint plans_refuses_starts_check
  check (refuses_starts in ('no_plan', 'payment_past_due', 'unpaid', 'operator_hold'));
alter table organizations drop constraint organizations_refuses_starts_check;
alter table organizations add constraint organizations_refuses_starts_check
  check (refuses_starts in ('no_plan', 'payment_past_due', 'unpaid', 'operator_hold'));
