-- Rules of workspaces and of admission that outlive a row, and the indices that keep them cheap among many rows.

-- A used key says whose it was also when the workspace's row is gone: in its project 409 workspace_deleted, elsewhere 404.
alter table workspace_keys add column project_id uuid references projects;
update workspace_keys k set project_id = w.project_id from workspaces w where w.id = k.workspace_id;
alter table workspace_keys alter column project_id set not null;
create index workspace_keys_by_workspace on workspace_keys (workspace_id);
-- The key of a fork that captured nothing was never used: it goes with the tombstone.
grant delete on workspace_keys to berth_cell;

-- App, Reasons of 402 entitlement_required: why this organization may start nothing, whatever its plan says.
alter table organizations add column refuses_starts text
  check (refuses_starts in ('no_plan', 'limits_missing', 'payment_past_due', 'unpaid', 'operator_hold'));
alter table organizations add column grace_until timestamptz; -- of payment_past_due
-- What 402 allowance_exhausted says beside its reason: the allowances that are used up, their reset, the spend cap.
alter table organizations add column allowance jsonb;

-- Inputs that an open replaces reach the next command (App, Workspace text inputs).
drop trigger workspace_changed on workspaces;
create trigger workspace_changed after insert or update of observed_state, desired_state, ownership_epoch, deleted_at,
  tokens_revoked_before, suspend_requested_at, idle_policy, inputs on workspaces
  for each row execute function notify_workspace();

-- Lists leave the deleted out, however many tombstones there are.
create index workspaces_live_by_project on workspaces (project_id, id desc) where deleted_at is null;
drop index workspaces_live;
create index workspaces_live_by_organization on workspaces (organization_id, id desc) where deleted_at is null;
-- What counts for a plan, what is looked at for idleness, what takes room: never the many that sleep.
create index workspaces_counted on workspaces (organization_id) where deleted_at is null and desired_state = 'running';
create index workspaces_running on workspaces (cell_id) where observed_state = 'running';
create index workspaces_granted on workspaces (cell_id) where grant_memory_mib is not null;
create index workspaces_tombstones on workspaces (deleted_at) where observed_state = 'deleted';
create index operations_by_source on operations (source_workspace_id) where source_workspace_id is not null;
