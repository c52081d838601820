-- Commands on the files of file-first workspaces: recorded before they run, with what they came to when they have ended.
create table executions (
  workspace_id uuid not null references trees on delete cascade,
  execution_id text not null check (execution_id ~ '^[A-Za-z0-9][A-Za-z0-9._:-]{7,127}$'),
  cell_id uuid not null references cells,
  fingerprint text not null, -- of the request
  state text not null default 'queued' check (state in ('queued', 'running', 'succeeded', 'failed', 'lost')),
  base_revision bigint not null,
  tree_revision bigint,
  exit_code integer,
  term_signal text,
  timed_out boolean not null default false,
  stdout bytea not null default '',
  stderr bytea not null default '',
  stdout_truncated boolean not null default false,
  stderr_truncated boolean not null default false,
  changed jsonb not null default '[]',
  changed_truncated boolean not null default false,
  timings jsonb not null default '{}',
  error jsonb,
  created_at timestamptz not null,
  finished_at timestamptz,
  primary key (workspace_id, execution_id),
  check ((tree_revision is not null) = (state = 'succeeded')),
  check ((error is not null) = (state in ('failed', 'lost'))),
  check ((finished_at is null) = (state in ('queued', 'running')))
);
create index executions_unfinished on executions (cell_id) where finished_at is null;
create index executions_by_end on executions (finished_at) where finished_at is not null;
-- Output is base64 in its answer and seldom read again: it is not worth a processor's time to compress it.
alter table executions alter column stdout set storage external, alter column stderr set storage external;

-- The one that runs: while there is one, nothing else changes the tree.
alter table trees add column execution_id text;
