-- A fork may join another one whose capture of the same source is under way (decision 256): its step is 'joined', and it holds its target
-- alone. Whoever lets the source go, and has not served it, hands the source to it: the oldest first, by whatever way the hold went.
create function pass_source_hold() returns trigger language plpgsql as $$
declare
  next_id uuid;
  taker uuid;
begin
  for next_id, taker in
    select id, cell_id from operations
    where source_workspace_id = old.workspace_id and kind = 'fork' and step = 'joined' and completed_at is null and id <> old.operation_id
    order by id
    for no key update
  loop
    insert into workspace_holds (workspace_id, operation_id, gate) values (old.workspace_id, next_id, 'closed') on conflict do nothing;
    perform pg_notify(cell_channel('berth_operation', taker), next_id::text);
    exit;
  end loop;
  return null;
end $$;
create trigger hold_passes after delete on workspace_holds for each row execute function pass_source_hold();
