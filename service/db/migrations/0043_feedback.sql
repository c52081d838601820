create table feedback (
  id uuid primary key,
  received_at timestamptz not null,
  organization_id uuid references organizations (id), -- null: of a person who is in none
  principal_type text not null check (principal_type in ('api_key', 'user')),
  principal_id uuid not null,
  category text not null check (category in ('bug', 'confusing', 'missing', 'idea', 'praise', 'other')),
  message text,         -- null: the same as that of the one that it repeats
  message_sha256 bytea not null,
  context jsonb not null default '{}',
  duplicate_of uuid references feedback (id) on delete cascade
);
create index feedback_of_principal on feedback (principal_id, received_at desc);
create index feedback_of_organization on feedback (organization_id, received_at desc);
create index feedback_by_age on feedback (received_at);
