-- Volumes: storage of a project that any number of its workspaces have in their file trees, and, where it is shared, its organization's.
create table volumes (
  id uuid primary key,
  organization_id uuid not null references organizations,
  project_id uuid not null references projects,
  cell_id uuid references cells, -- whose host keeps it; null: no cell was there to take it yet
  name text not null,
  quota_gib integer not null check (quota_gib > 0),
  org_shared boolean not null,
  state text not null check (state in ('creating', 'available', 'deleting', 'deleted', 'failed')),
  created_at timestamptz not null,
  updated_at timestamptz not null,
  deleted_at timestamptz, -- when its deletion was asked for: its name is free from then on
  check ((deleted_at is not null) = (state in ('deleting', 'deleted')))
);
create unique index volumes_live_name on volumes (project_id, name) where deleted_at is null;
create index volumes_of_project on volumes (project_id, uuid_send(id) desc);
create index volumes_shared on volumes (organization_id, uuid_send(id) desc) where org_shared;
create index volumes_live on volumes (organization_id) where deleted_at is null;
create index volumes_of_cell on volumes (cell_id);

create index operations_of_others on operations (subject_id, uuid_send(id) desc) where subject_kind <> 'workspace';

create table volume_attachments (
  id uuid primary key,
  workspace_id uuid not null references workspaces on delete cascade,
  volume_id uuid not null references volumes,
  mount_path text not null,
  mode text not null check (mode in ('read_write', 'read_only')),
  place integer not null check (place between 0 and 15), -- its name below the machine's /volumes, for as long as it is attached
  state text not null check (state in ('attaching', 'attached', 'detaching')),
  operation_id uuid, -- that is attaching or detaching it
  created_at timestamptz not null,
  updated_at timestamptz not null,
  unique (workspace_id, volume_id),
  unique (workspace_id, place),
  unique (workspace_id, mount_path)
);
create index volume_attachments_by_volume on volume_attachments (volume_id);

-- What a machine of the workspace begins with, beside everything else that a start reads.
alter table workspaces add column volumes jsonb not null default '[]';

create function attached_volumes(workspace uuid) returns jsonb language sql stable as $$
  select coalesce(jsonb_agg(jsonb_build_object('volume_id', a.volume_id, 'place', a.place, 'mount_path', a.mount_path,
    'read_only', a.mode = 'read_only') order by a.place), '[]')
  from volume_attachments a where a.workspace_id = workspace and a.state in ('attached', 'detaching')
$$;

create function write_attached_volumes() returns trigger language plpgsql security definer set search_path = public, pg_temp as $$
declare
  changed uuid := coalesce(new.workspace_id, old.workspace_id);
begin
  update workspaces set volumes = attached_volumes(changed) where id = changed and volumes <> attached_volumes(changed);
  return null;
end $$;
create trigger attached_volumes_changed after insert or update or delete on volume_attachments
  for each row execute function write_attached_volumes();

-- Whoever deletes a workspace takes its volumes from it.
create function drop_attachments() returns trigger language plpgsql security definer set search_path = public, pg_temp as $$
begin
  delete from volume_attachments where workspace_id = new.id;
  return null;
end $$;
create trigger workspace_attachments_dropped after update of deleted_at on workspaces
  for each row when (new.deleted_at is not null and old.deleted_at is null) execute function drop_attachments();

-- The plan's limits of volumes. What it fails to say refuses volumes alone, never a start.
alter table plans
  add column shared_volumes_max integer check (shared_volumes_max >= 0),
  add column shared_volume_gib_max integer check (shared_volume_gib_max > 0),
  add column volume_attachments_per_workspace integer check (volume_attachments_per_workspace >= 0),
  add column missing_volume_limits text[] not null default '{}'
    check (missing_volume_limits <@ array['shared_volumes_max', 'shared_volume_gib_max']);

-- What volumes have stored, by the hour, as usage_samples has it of workspaces.
create table volume_usage_samples (
  volume_id uuid not null, -- outlives the volume's row
  hour timestamptz not null,
  organization_id uuid not null references organizations,
  project_id uuid not null references projects,
  stored_byte_ms numeric not null default 0 check (stored_byte_ms >= 0),
  sampled_ms bigint not null default 0 check (sampled_ms >= 0),
  primary key (volume_id, hour)
);
create index volume_usage_samples_by_project on volume_usage_samples (project_id, hour);
create index volume_usage_samples_by_organization on volume_usage_samples (organization_id, hour);
create table volume_usage_readings (
  volume_id uuid primary key references volumes on delete cascade,
  read_at timestamptz not null,
  run uuid not null,
  monotonic_ms bigint not null
);
