-- A list of workspaces reads the rows of its page and no others, whatever its filters. Each is a state, or a state and another, of a few
-- values each: an index gives those of one combination in the order of the list, and the list joins the combinations that it means.
-- The order is that of the bytes of the id, which is that of the ids: an order of the ids themselves the primary key has too, and
-- PostgreSQL walks that, through all projects, for a combination that it takes for common.
create index workspaces_by_desired_state on workspaces (project_id, desired_state, lifetime, purpose, uuid_send(id) desc);
create index workspaces_by_observed_state on workspaces (project_id, observed_state, desired_state, lifetime, purpose, uuid_send(id) desc);
-- By bytes, in whatever order the database's language has: a prefix is a range of them.
create index workspaces_by_key on workspaces (project_id, key text_pattern_ops);

-- Nothing else was read by them, and with them at hand PostgreSQL may walk a project for a filter that it takes for common.
drop index workspaces_by_project, workspaces_by_organization, workspaces_live_by_project, workspaces_live_by_organization;
