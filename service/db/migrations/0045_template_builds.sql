-- What people call a template, and what a version is about.
alter table templates add column display_name text, add column description text;
-- `scan_findings`: what looks like a secret in the version's files, and nobody has acknowledged.
alter table template_versions add column description text, add column scan_findings jsonb not null default '[]';

-- How versions are made: each build is an operation about itself, whose row says how far it is (decision 222).
create table template_builds (
  id uuid primary key,
  organization_id uuid not null references organizations,
  project_id uuid not null references projects,
  template_id uuid not null references templates on delete cascade,
  operation_id uuid not null unique,
  kind text not null check (kind in ('save_as_template', 'draft', 'recipe')),
  spec jsonb not null, -- what was asked, as its kind needs it
  capture_operation_id uuid, -- what it is made of comes of this operation
  findings jsonb not null default '[]',
  version_id uuid references template_versions on delete set null,
  log_bytes bigint not null default 0,
  created_at timestamptz not null
);
create index template_builds_of_template on template_builds (template_id, uuid_send(id) desc);
create index template_builds_of_organization on template_builds (organization_id, uuid_send(id) desc);
create index template_builds_of_version on template_builds (version_id) where version_id is not null;

-- Pieces of a build's log, each by the byte that it begins at. They go before the build does.
create table template_build_logs (
  build_id uuid not null references template_builds on delete cascade,
  start_byte bigint not null,
  text text not null,
  primary key (build_id, start_byte)
);

-- null: without limit
alter table plans add column concurrent_template_builds integer check (concurrent_template_builds >= 0);
