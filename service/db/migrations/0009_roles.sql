-- The cell handles hostile guests: of credentials and of people it reads what its gate decides by, and nothing that is one. A column
-- that is added to one of these tables is closed to it until a migration grants it.

revoke select on plans, projects, people, person_sessions, templates, rate_buckets from berth_cell;
revoke select on organizations, memberships, api_keys, idempotency_entries, agent_sessions from berth_cell;
grant select (id, allowance_exhausted) on organizations to berth_cell;
grant select (organization_id, person_id, role) on memberships to berth_cell;
grant select (id, tool_permissions, expires_at, revoked_at, tools_changed_at) on api_keys to berth_cell;
-- What it removes when it is old.
grant select (principal, route, key, created_at) on idempotency_entries to berth_cell;
grant select (workspace_id) on agent_sessions to berth_cell;
