-- Each cell hears what is of its own workspaces, and what has no cell yet. The api hears of operations, for which its callers wait.
create function cell_channel(channel text, cell_id uuid) returns text language sql immutable as $$
  select channel || '_' || coalesce(replace(cell_id::text, '-', ''), 'unplaced')
$$;

create or replace function notify_workspace() returns trigger language plpgsql as $$
begin
  perform pg_notify(cell_channel('berth_workspace', new.cell_id), new.id::text);
  if tg_op = 'UPDATE' and old.cell_id is distinct from new.cell_id then
    perform pg_notify(cell_channel('berth_workspace', old.cell_id), new.id::text);
  end if;
  return null;
end $$;
drop trigger workspace_changed on workspaces;
create trigger workspace_changed after insert or update of observed_state, desired_state, ownership_epoch, deleted_at,
  tokens_revoked_before, suspend_requested_at, idle_policy, inputs, cell_id on workspaces
  for each row execute function notify_workspace();

create or replace function notify_hold() returns trigger language plpgsql as $$
declare
  held uuid := coalesce(new.workspace_id, old.workspace_id);
begin
  perform pg_notify(cell_channel('berth_workspace', (select cell_id from workspaces where id = held)), held::text);
  return null;
end $$;

-- The cells that may take it, by the rule by which they look for work.
create or replace function notify_operation() returns trigger language plpgsql as $$
declare
  taker uuid := coalesce(new.cell_id,
    (select cell_id from workspaces where id = new.workspace_id),
    (select cell_id from workspaces where id = new.source_workspace_id));
begin
  perform pg_notify('berth_operation', new.id::text);
  perform pg_notify(cell_channel('berth_operation', taker), new.id::text);
  return null;
end $$;

create or replace function notify_checkpoint() returns trigger language plpgsql as $$
begin
  perform pg_notify(cell_channel('berth_checkpoint', new.cell_id), new.id::text);
  return null;
end $$;
