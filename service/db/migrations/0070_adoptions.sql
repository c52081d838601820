-- A workspace goes on from the memory and disk of a relative (decision 315). `family_id`: the workspace that it goes back to by forks; null: it is none.
alter table workspaces add column family_id uuid;
-- Operations of forks stay as long as their targets.
with recursive forks as (
  select workspace_id as id, source_workspace_id as family_id from operations where kind = 'fork' and source_workspace_id is not null
), up as (
  select id, family_id from forks
  union
  select up.id, forks.family_id from up join forks on forks.id = up.family_id
)
update workspaces w set family_id = up.family_id
from up where up.id = w.id and not exists (select from forks where forks.id = up.family_id);

alter table operations drop constraint operations_kind_check;
alter table operations add constraint operations_kind_check check (kind in ('open', 'suspend', 'resume', 'fork', 'snapshot', 'restore', 'adopt',
  'delete', 'reset', 'layer_snapshot', 'volume_create', 'volume_delete', 'volume_attach', 'volume_detach', 'template_build', 'move')) not valid;
