-- Tars that builds of templates take files from. Their bytes are files, in parts; a part counts from the moment that its row says so.
create table template_uploads (
  id uuid primary key,
  organization_id uuid not null references organizations (id),
  project_id uuid not null references projects (id),
  size_bytes bigint not null check (size_bytes > 0),
  sha256 text not null,
  parts jsonb not null default '[]', -- name and bytes of each, in their order
  received_bytes bigint not null default 0,
  complete boolean not null default false,
  created_at timestamptz not null,
  used_at timestamptz not null -- when a part came, or a build began with it
);
create index template_uploads_by_organization on template_uploads (organization_id);
create index template_uploads_by_use on template_uploads (used_at);
