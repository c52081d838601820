-- migrate: outside a transaction
-- Test instances of a draft's states.
create index concurrently if not exists workspaces_of_draft_states on workspaces (draft_state_id) where draft_state_id is not null;
