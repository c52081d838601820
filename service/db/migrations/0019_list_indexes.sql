-- migrate: outside a transaction
-- A list reads the rows of its page and no others, whatever its filters: decision 122. By the bytes of the id, as in 0010: in the order of
-- the ids themselves PostgreSQL walks the primary key, through everybody's rows, for whoever has many.

create index concurrently if not exists operations_newest on operations (workspace_id, uuid_send(id) desc);
drop index concurrently if exists operations_by_workspace;
-- A workspace's operations by kind, by state, or both: the list joins the combinations that it means.
create index concurrently if not exists operations_by_kind_and_state on operations (workspace_id, kind, state, uuid_send(id) desc);
create index concurrently if not exists agent_sessions_newest on agent_sessions (workspace_id, uuid_send(id) desc);
create index concurrently if not exists projects_newest on projects (organization_id, uuid_send(id) desc);

-- What is looked for every ten minutes, among all that stay.
create index concurrently if not exists checkpoints_by_expiry on checkpoints (expires_at) where expires_at is not null and deleted_at is null;
create index concurrently if not exists checkpoints_by_deletion on checkpoints (deleted_at) where deleted_at is not null;
