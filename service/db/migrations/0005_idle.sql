-- Idle suspend: what the adaptive policy learns, and how failed suspends back off.

alter table workspaces
  add column idle_gaps real[],                          -- histogram of gaps between activity (decision 14); null: none yet
  add column idle_failures integer not null default 0,  -- idle suspends that failed since the last that succeeded
  add column idle_retry_at timestamptz;                 -- not begun again before

-- The gap is over whoever writes the activity: the flush of calls, or the start that a wake asked for. The time in which a command
-- or a keepalive kept the workspace awake is no part of it. The numbers are those of service/core/workspaces/idle-gaps.ts.
create function note_idle_gap() returns trigger language plpgsql as $$
declare
  idle_from timestamptz := greatest(old.active_at, least(coalesce(old.busy_until, old.active_at), new.active_at),
    least(coalesce(old.keepalive_until, old.active_at), new.active_at));
  gap_seconds double precision := extract(epoch from new.active_at - idle_from);
  bucket integer;
begin
  if gap_seconds < 10 then return new; end if;
  bucket := 1 + least(24, floor(ln(gap_seconds / 10) / (ln(1440::double precision) / 24)));
  new.idle_gaps := (
    select array_agg((coalesce(old.idle_gaps[i], 0) * 0.98 + (i = bucket)::integer)::real order by i) from generate_series(1, 25) i);
  return new;
end $$;
create trigger idle_gap before update of active_at on workspaces
  for each row when (new.active_at >= old.active_at + interval '10 seconds') execute function note_idle_gap();
