-- A machine of a warm version that has started up, saved: opens on that computer restore it. A cache: what is lost is made again.
create table template_captures (
  id uuid primary key, -- the name of the machine that it is taken of, and of what lies on the computer
  version_id uuid not null references template_versions on delete cascade,
  cell_id uuid not null references cells,
  -- Whose turn it is when it is made: room for the machine is given in turns.
  organization_id uuid not null references organizations,
  project_id uuid not null references projects,
  state text not null check (state in ('wanted', 'making', 'ready', 'failed')),
  checkpoint_id uuid,
  engine text,
  agent_protocol integer,
  resources jsonb,
  size_bytes bigint,
  error jsonb,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  used_at timestamptz not null,
  unique (version_id, cell_id),
  check ((state = 'ready') = (checkpoint_id is not null)),
  check ((state = 'failed') = (error is not null))
);
create index template_captures_of_cells on template_captures (cell_id, used_at);

create function notify_template_capture() returns trigger language plpgsql as $$
begin
  perform pg_notify('berth_template_capture', new.id::text);
  return null;
end $$;
create trigger template_captures_wanted after insert or update of state on template_captures
  for each row when (new.state = 'wanted') execute function notify_template_capture();
create trigger warm_versions_made after insert on template_versions
  for each row when ((new.settings -> 'warm')::text = 'true') execute function notify_template_capture();
create trigger warm_versions_changed after update of published_at, archived_at on template_versions
  for each row when ((new.settings -> 'warm')::text = 'true') execute function notify_template_capture();
