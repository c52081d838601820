const RECORDED = [
  'id',
  'created_at',
  'organization_id',
  'project_id',
  'actor_kind',
  'actor_id',
  'actor_name',
  'action',
  'subject_kind',
  'subject_id',
  'request_id',
  'source_address',
  'details',
] as const

/**
 * A record does not change until it is deleted for age. The api links records to the chain, so that a writer cannot choose its record's
 * position.
 */
export const AUDIT_GRANTS = {
  audit_events: {
    api: { select: 'all', insert: RECORDED, update: ['sequence', 'sha256'], delete: true },
    cell: { insert: RECORDED },
  },
  audit_chains: {
    api: { select: 'all', insert: 'all', update: ['sequence', 'sha256', 'dropped_sequence', 'dropped_sha256'] },
    cell: {},
  },
  // The columns that limits and the check for duplicates need.
  feedback: {
    api: {
      select: ['id', 'received_at', 'organization_id', 'principal_id', 'message_sha256', 'duplicate_of'],
      insert: 'all',
      delete: true,
    },
    cell: {},
  },
} as const
