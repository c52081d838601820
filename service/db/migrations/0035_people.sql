-- What a person signs in with. The cell reads none of it.
create table person_credentials (
  person_id uuid primary key references people (id),
  password_hash text,                        -- argon2id; null: none has been set
  password_changed_at timestamptz,
  totp_sealed bytea,                         -- null: no second factor
  totp_step bigint not null default -1,      -- the last time step of which a code was taken
  totp_pending_sealed bytea,                 -- begun, and not confirmed
  totp_pending_at timestamptz,
  mfa_failures integer not null default 0,   -- wrong codes since the last right one
  mfa_locked_until timestamptz
);

create table recovery_codes (
  person_id uuid not null references people (id),
  code_sha256 bytea not null,
  created_at timestamptz not null,
  used_at timestamptz,
  primary key (person_id, code_sha256)
);

alter table person_sessions
  add column stepped_up_at timestamptz,
  add column device text,
  add column address text;

create index person_sessions_newest on person_sessions (person_id, uuid_send(id) desc) where revoked_at is null;

-- Tokens of emailed links. One of a purpose is in force for a person: the newest.
create table email_tokens (
  token_sha256 bytea primary key,
  person_id uuid not null references people (id),
  purpose text not null check (purpose in ('verify_email', 'reset_password', 'change_email')),
  email text not null,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  used_at timestamptz
);
create index email_tokens_of_person on email_tokens (person_id, purpose);
create index email_tokens_by_end on email_tokens (expires_at);

create table invitations (
  id uuid primary key,
  organization_id uuid not null references organizations (id),
  email text not null,
  role text not null check (role in ('owner', 'admin', 'member', 'billing')),
  invited_by uuid references people (id),
  token_sha256 bytea unique,                 -- null: its mail has not been made yet
  created_at timestamptz not null,
  expires_at timestamptz not null,
  accepted_at timestamptz,
  revoked_at timestamptz
);
create unique index invitations_in_force on invitations (organization_id, email) where accepted_at is null and revoked_at is null;
create index invitations_newest on invitations (organization_id, uuid_send(id) desc);

-- Mail that waits to be sent. Its token is made when it is sent, so that no row holds one.
create table mails (
  id uuid primary key,
  kind text not null,
  email text not null,
  person_id uuid,
  invitation_id uuid,
  created_at timestamptz not null,
  next_try_at timestamptz not null,
  tries integer not null default 0,
  sent_at timestamptz,
  given_up_at timestamptz,
  last_error text
);
create index mails_waiting on mails (next_try_at) where sent_at is null and given_up_at is null;
create index mails_by_age on mails (created_at);

-- When a key was last used, apart from the key: a use is no change of it.
create table api_key_uses (
  api_key_id uuid primary key references api_keys (id),
  last_used_at timestamptz not null
);

create index api_keys_newest on api_keys (project_id, uuid_send(id) desc);
create index memberships_newest on memberships (organization_id, uuid_send(person_id) desc);
