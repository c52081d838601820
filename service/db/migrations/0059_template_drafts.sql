-- Workspaces in which the next version of a template is worked on (decision 229). A row goes with the tombstone of its workspace.
create table template_drafts (
  id uuid primary key,
  organization_id uuid not null references organizations,
  project_id uuid not null references projects,
  template_id uuid not null references templates on delete cascade,
  workspace_id uuid not null unique references workspaces on delete cascade,
  base_version integer, -- the newest version of its template when it was opened, or the one that it is based on; null: there was none
  created_at timestamptz not null,
  discarded_at timestamptz
);
-- App, "Template drafts and test instances": one live draft per template.
create unique index template_drafts_live on template_drafts (template_id) where discarded_at is null;

-- What was captured of a draft, where its operation succeeds. `layers`: those that a machine on the state begins with; null: nobody has made its own yet.
create table template_draft_states (
  id uuid primary key,
  draft_id uuid not null references template_drafts on delete cascade,
  operation_id uuid not null unique,
  label text,
  layers text[],
  created_at timestamptz not null
);
create index template_draft_states_of_draft on template_draft_states (draft_id, id desc);

-- Of a test instance of a draft's state, and of its forks: which state, and the layers that it has instead of its version's.
alter table workspaces add column draft_state_id uuid, add column state_layers text[];
