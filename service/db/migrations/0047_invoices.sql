-- What an organization's plan was and cost until a change of it, so that an invoice has each part of its period by what it cost then.
create table subscription_changes (
  organization_id uuid not null references organizations,
  changed_at timestamptz not null,
  -- As they were before.
  plan text not null,
  currency text,
  price_minor integer,
  cpu_hours integer,
  ram_gib_hours integer,
  cpu_hour_minor integer,
  ram_gib_hour_minor integer
);
create index subscription_changes_of_organization on subscription_changes (organization_id, changed_at);

-- Billing periods in which overage was on, with the cap that was set last in them.
create table overage_periods (
  organization_id uuid not null references organizations,
  period_starts_at timestamptz not null,
  spend_cap_minor integer,
  primary key (organization_id, period_starts_at)
);

create table invoices (
  id uuid primary key,
  organization_id uuid not null references organizations,
  number text not null unique,
  state text not null check (state in ('open', 'paid', 'void')),
  period_starts_at timestamptz not null,
  period_ends_at timestamptz not null,
  currency text not null check (currency ~ '^[A-Z]{3}$'),
  lines jsonb not null,
  total_minor bigint not null check (total_minor > 0),
  issued_at timestamptz not null,
  due_at timestamptz not null,
  paid_at timestamptz,
  voided_at timestamptz,
  unique (organization_id, period_starts_at, currency)
);
create index invoices_newest on invoices (organization_id, uuid_send(id) desc);
create index invoices_open on invoices (due_at) where state = 'open';

alter table organizations
  add column billed_through timestamptz, -- all billing periods until then are closed; null: none yet
  -- What open invoices come to. An operator's word comes first.
  add column payment_refuses_starts text check (payment_refuses_starts in ('payment_past_due', 'unpaid')),
  add column payment_grace_until timestamptz;
create index organizations_refused_for_payment on organizations (id) where payment_refuses_starts is not null;
