-- What a payment service knows organizations by. Without a row it knows nothing of one.
create table payment_accounts (
  organization_id uuid primary key references organizations,
  customer_id text not null unique,
  subscription_id text unique, -- null: no plan is bought
  plan_id uuid references plans, -- the plan that was bought
  plan_before_id uuid references plans, -- what the organization goes back to
  look_at timestamptz not null, -- when the service is asked how the subscription is, beside what events tell
  created_at timestamptz not null,
  check ((subscription_id is null) = (plan_id is null))
);
create index payment_accounts_to_look_at on payment_accounts (look_at) where subscription_id is not null;

create table checkouts (
  id uuid primary key,
  organization_id uuid not null references organizations,
  plan_id uuid not null references plans,
  state text not null check (state in ('pending', 'completed', 'expired', 'superseded')),
  session_id text unique, -- null: the service has not made its page yet
  look_at timestamptz not null,
  created_at timestamptz not null,
  expires_at timestamptz not null
);
create unique index checkouts_pending on checkouts (organization_id) where state = 'pending';
create index checkouts_to_look_at on checkouts (look_at) where state = 'pending';

-- Events of the payment service, by its own id: a repeat is one that is there.
create table payment_events (
  id text primary key,
  kind text not null check (kind in ('checkout', 'subscription', 'invoice')),
  object_id text not null,
  received_at timestamptz not null,
  applied_at timestamptz,
  next_try_at timestamptz not null,
  tries integer not null default 0,
  last_error text
);
create index payment_events_waiting on payment_events (next_try_at) where applied_at is null;

-- Invoices as the payment service has them. They are pushed to it, and what becomes of them there and here is brought together.
create table payment_invoices (
  invoice_id uuid primary key references invoices,
  remote_id text unique, -- null: it is not there yet
  pushed_at timestamptz, -- it is whole there, and collected
  settled_at timestamptz, -- it is over, here and there
  next_try_at timestamptz not null,
  tries integer not null default 0,
  last_error text
);
create index payment_invoices_waiting on payment_invoices (next_try_at) where settled_at is null;
