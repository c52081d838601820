const NOTHING = {}

export const PAYMENT_GRANTS = {
  payment_accounts: {
    api: { select: 'all', insert: 'all', update: ['subscription_id', 'plan_id', 'plan_before_id', 'look_at'] },
    cell: NOTHING,
  },
  checkouts: { api: { select: 'all', insert: 'all', update: ['state', 'session_id', 'look_at'], delete: true }, cell: NOTHING },
  payment_events: {
    api: { select: 'all', insert: 'all', update: ['applied_at', 'next_try_at', 'tries', 'last_error'], delete: true },
    cell: NOTHING,
  },
  payment_invoices: {
    api: { select: 'all', insert: 'all', update: ['remote_id', 'pushed_at', 'settled_at', 'next_try_at', 'tries', 'last_error'] },
    cell: NOTHING,
  },
} as const
