-- What lists tell of a command of a file-first workspace. Null: it began before the service kept it.
alter table executions add column argv text[], add column argv_truncated boolean not null default false, add column cwd text;
