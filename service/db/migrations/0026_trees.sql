-- The files of file-first workspaces: a revision names the root of a tree, and moves by comparing and setting. What a root is made of
-- lies with the cell, under its digest.
create table trees (
  workspace_id uuid primary key references workspaces on delete cascade,
  revision bigint not null default 0 check (revision >= 0),
  root text check (root ~ '^[0-9a-f]{64}$'), -- null: nothing was ever put into it
  entries bigint not null default 0,
  bytes bigint not null default 0,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  collected_at timestamptz, -- when what nothing names any more was last removed
  check ((root is null) = (revision = 0))
);

-- What a tree was before: read until its time is over, and not billed.
create table tree_revisions (
  workspace_id uuid not null references trees on delete cascade,
  revision bigint not null,
  root text, -- null: of revision 0
  superseded_at timestamptz not null,
  primary key (workspace_id, revision)
);

-- What changes with an Idempotency-Key were answered: written with the revision that they made.
create table tree_keys (
  workspace_id uuid not null references trees on delete cascade,
  key text not null,
  fingerprint bytea not null, -- of the request
  revision bigint not null,
  answer jsonb not null,
  created_at timestamptz not null,
  primary key (workspace_id, key)
);
create unique index tree_keys_by_revision on tree_keys (workspace_id, revision);
