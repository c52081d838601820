-- Layers that steps of builds have made, by the digest of all that went into them: the same steps are not run again.
create table template_build_steps (
  organization_id uuid not null references organizations (id),
  cell_id uuid not null references cells (id),
  key text not null,
  layer text not null,
  used_at timestamptz not null,
  primary key (organization_id, cell_id, key)
);
