-- Every machine that something was granted, whatever it is for: what a cell's room, its comparison with the host and its meters go by.

create table machines (
  kind text not null check (kind in ('workspace', 'execution', 'build', 'test_instance')),
  id uuid not null,                                        -- of the workspace, execution, build or test instance; the host knows it by both
  workspace_id uuid references workspaces on delete cascade, -- whose it is; null: a build, which is its organization's alone
  organization_id uuid not null references organizations,
  project_id uuid not null references projects,
  cell_id uuid not null references cells,
  grant_cpu_millis integer not null,
  grant_memory_mib integer not null,
  grant_disk_gib integer not null,
  epoch bigint not null,
  fence bigint not null default 0,                         -- who moved it last: what speaks with a lower one commits nothing
  disk text,                                               -- null: none of its own now
  checkpoint_id uuid,                                      -- what it sleeps as
  residency text not null default 'resident' check (residency in ('resident', 'hibernated', 'restoring')),
  primary key (kind, id),                                  -- so that nothing has two machines
  check (workspace_id is not null or kind = 'build'),
  check (kind <> 'workspace' or workspace_id = id)
);
create index machines_by_cell on machines (cell_id);
create index machines_by_workspace on machines (workspace_id);
grant select on machines to berth_api, berth_cell;
grant insert, update, delete on machines to berth_cell;

-- A workspace's machine follows the workspace's row, in the same transaction, whoever writes it.
create function follow_machine() returns trigger language plpgsql security definer set search_path = public, pg_temp as $$
begin
  if new.grant_memory_mib is null or new.cell_id is null then
    delete from machines where kind = 'workspace' and id = new.id;
    return null;
  end if;
  insert into machines (kind, id, workspace_id, organization_id, project_id, cell_id, grant_cpu_millis, grant_memory_mib, grant_disk_gib,
    epoch, fence, disk, checkpoint_id, residency)
  values ('workspace', new.id, new.id, new.organization_id, new.project_id, new.cell_id, new.grant_cpu_millis, new.grant_memory_mib,
    new.grant_disk_gib, new.ownership_epoch, new.residency_fence, new.disk, new.checkpoint_id, new.residency)
  on conflict (kind, id) do update set
    organization_id = excluded.organization_id, project_id = excluded.project_id, cell_id = excluded.cell_id,
    grant_cpu_millis = excluded.grant_cpu_millis, grant_memory_mib = excluded.grant_memory_mib, grant_disk_gib = excluded.grant_disk_gib,
    epoch = excluded.epoch, fence = excluded.fence, disk = excluded.disk, checkpoint_id = excluded.checkpoint_id,
    residency = excluded.residency;
  return null;
end $$;
create trigger workspace_granted after insert on workspaces
  for each row when (new.grant_memory_mib is not null) execute function follow_machine();
create trigger workspace_machine after update of organization_id, project_id, cell_id, grant_cpu_millis, grant_memory_mib, grant_disk_gib,
  ownership_epoch, residency_fence, disk, checkpoint_id, residency on workspaces
  for each row when (old.grant_memory_mib is not null or new.grant_memory_mib is not null) execute function follow_machine();

insert into machines (kind, id, workspace_id, organization_id, project_id, cell_id, grant_cpu_millis, grant_memory_mib, grant_disk_gib,
  epoch, fence, disk, checkpoint_id, residency)
select 'workspace', id, id, organization_id, project_id, cell_id, grant_cpu_millis, grant_memory_mib, grant_disk_gib,
  ownership_epoch, residency_fence, disk, checkpoint_id, residency
from workspaces where grant_memory_mib is not null and cell_id is not null;

-- What is taken of each cell, and by whom: machines, and what running operations have set aside for one that is to come.
create view grants with (security_invoker = true) as
  select cell_id, organization_id, kind, id, residency, grant_cpu_millis as cpu_millis, grant_memory_mib as memory_mib,
    grant_disk_gib as disk_gib, false as is_reserved
  from machines
  union all
  select o.cell_id, o.organization_id, 'workspace', o.workspace_id, 'resident', (o.progress #>> '{reserved,cpu_millis}')::integer,
    (o.progress #>> '{reserved,memory_mib}')::integer, (o.progress #>> '{reserved,disk_gib}')::integer, true
  from operations o
  where o.completed_at is null and o.state = 'running' and o.cell_id is not null and o.progress #> '{reserved}' is not null
    and jsonb_typeof(o.progress #> '{reserved}') = 'object';
grant select on grants to berth_cell;
