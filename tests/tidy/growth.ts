import type { Database } from '../../service/db/schema.ts'

export type Growth =
  | { by: `${string} ${string}`; when: string }
  /** Rows are removed with another table's row, by their foreign key or by the function that deletes that row. */
  | { with: keyof Database }
  /** A limit bounds the rows, or they are too few to matter. */
  | { bounded: string }
  | { for_good: string }

const DAYS_30 = '30 days after the end'
const A_PERSON_DOES = 'written by what a person does by hand, a few hundred bytes each'

/** A table that is missing here grows until the disk is full: name the code that removes its rows. */
export const GROWTH: Record<keyof Database, Growth> = {
  agent_sessions: {
    by: 'service/cell/reconcile/history-store.ts dropOldAgentSessions',
    when: 'unused for 30 days, but for the newest 1,000 of a workspace',
  },
  api_key_uses: { bounded: 'one for each API key' },
  api_keys: { for_good: `${A_PERSON_DOES}; records name them` },
  audit_chains: { bounded: 'one for each organization' },
  audit_events: { by: 'service/core/changes/chain-store.ts dropOfChain', when: '400 days' },
  authorities: { bounded: 'one for each computer and rotation' },
  cells: { bounded: 'one for each computer' },
  checkouts: {
    by: 'service/api/money/payment/store.ts forgetPayments',
    when: 'some days; one that was paid stays, as the record of a purchase',
  },
  checkpoints: { by: 'service/cell/reconcile/expiry-store.ts dropExpiredCheckpoints', when: DAYS_30 },
  egress_denials: {
    by: 'service/cell/policies/egress/store.ts dropOldDenials',
    when: 'some days, and as many of a workspace as the API lists',
  },
  egress_versions: {
    by: 'service/api/workspaces/egress/store.ts insertEgressVersion',
    when: 'as many of a project or workspace as are kept',
  },
  email_tokens: { by: 'service/api/records/mail/store.ts forgetMails', when: 'some days after they are good no more' },
  executions: { by: 'service/cell/filetree/executions/store.ts dropOldExecutions', when: '7 days' },
  export_parts: { with: 'exports' },
  exports: { by: 'service/api/records/exports/store.ts dropExports', when: 'some days' },
  feedback: { by: 'service/core/people/feedback/store.ts forgetFeedback', when: '400 days' },
  idempotency_entries: { by: 'service/api/calls/idempotency/store.ts forgetOutcomes', when: '24 hours' },
  installation: { bounded: 'one' },
  invitations: { by: 'service/api/access/invitations/store.ts forgetInvitations', when: '400 days after the end' },
  invoices: { for_good: 'one a month, organization and currency: books are kept' },
  layer_directories: { with: 'layer_lists' },
  layer_lists: { by: 'service/cell/operations/layer-lists/store.ts dropUnusedLists', when: 'a day after no version has the layer' },
  machines: { bounded: 'what runs or sleeps on computers' },
  mails: { by: 'service/api/records/mail/store.ts forgetMails', when: 'some days after they were sent or given up' },
  memberships: { by: 'service/core/people/organizations/deletion-store.ts beginDeletion', when: 'with the person or the organization' },
  operations: {
    by: 'service/cell/reconcile/history-store.ts dropOldOperations',
    when: '30 days, but for the newest 100 of a workspace; all with its tombstone',
  },
  organizations: { for_good: `${A_PERSON_DOES}; the ledger names them` },
  overage_periods: { for_good: 'one a month and organization: invoices are made by it' },
  payment_accounts: { bounded: 'one for each organization' },
  payment_events: { by: 'service/api/money/payment/store.ts forgetPayments', when: 'some days after their effect' },
  payment_invoices: { for_good: 'one for each invoice' },
  people: { for_good: `${A_PERSON_DOES}; records name them` },
  person_credentials: { bounded: 'one for each person' },
  person_sessions: { by: 'service/core/people/sessions-store.ts forgetSessions', when: DAYS_30 },
  plans: { bounded: 'what an operator writes' },
  port_credentials: { by: 'service/cell/ports/store.ts dropExpiredCredentials', when: 'some time after the end' },
  projects: { for_good: `${A_PERSON_DOES}; the ledger names them` },
  rate_buckets: { by: 'service/api/workspaces/tool-tokens/store.ts forgetBudgets', when: 'unused for a day' },
  recovery_codes: { bounded: 'ten for each person' },
  sealing_keys: { by: 'service/core/secrets/rewrap-store.ts deleteSealingKey', when: 'retired by an operator' },
  secret_versions: { for_good: `${A_PERSON_DOES}; values of earlier versions are erased` },
  secrets: { for_good: `${A_PERSON_DOES}; values of deleted ones are erased` },
  service_keys: { bounded: 'one for each rotation by an operator' },
  signing_keys: { by: 'service/core/keys/ring/key-ring-store.ts deleteSigningKey', when: 'retired by an operator' },
  spend_alert_settings: { bounded: 'one for each organization' },
  spend_alerts: { for_good: 'one for each month, organization, allowance and threshold' },
  spend_policies: { bounded: 'one for each organization' },
  subscription_changes: { for_good: `${A_PERSON_DOES}; invoices are made by it` },
  template_build_logs: { by: 'service/cell/operations/builds/store.ts forgetBuilds', when: 'some days after the build' },
  template_build_steps: {
    by: 'service/cell/operations/layers/store.ts forgetSteps',
    when: 'unused for 14 days, or 500 of an organization and computer',
  },
  template_builds: { for_good: 'a few hundred bytes a build: what it was built with goes after some days (forgetBuilds)' },
  template_captures: { by: 'service/cell/operations/warm/store.ts forgetCaptures', when: 'as many on a computer as it keeps' },
  template_draft_states: { with: 'template_drafts' },
  template_drafts: { with: 'workspaces' },
  template_uploads: { by: 'service/api/templates/uploads/store.ts dropOldUploads', when: 'unused for 7 days' },
  template_versions: { for_good: 'what workspaces began with; a version is published by a build' },
  templates: { for_good: A_PERSON_DOES },
  tree_keys: { by: 'service/cell/filetree/trees/collect-store.ts forgetEarlier', when: '10,000 of a workspace' },
  tree_revisions: { by: 'service/cell/filetree/trees/collect-store.ts forgetEarlier', when: 'an hour, or 100 of a workspace' },
  trees: { with: 'workspaces' },
  unnamed_layers: { by: 'service/cell/operations/layers/store.ts noteUnnamed', when: 'with the image' },
  usage_counters: { by: 'service/cell/metering/store.ts dropOldSamples', when: '7 days' },
  usage_entries: { for_good: 'the ledger: one for each hour in which a workspace or volume used something' },
  usage_grant_draws: { for_good: 'one for each credit and month in which it was drawn' },
  usage_grants: { bounded: 'what an operator writes' },
  usage_hours: { for_good: 'one for each hour and project that used something: invoices are made by it' },
  usage_open_hours: { with: 'usage_samples' },
  usage_samples: { by: 'service/cell/metering/store.ts dropOldSamples', when: '400 days' },
  usage_storage: { by: 'service/cell/metering/store.ts dropOldSamples', when: '7 days' },
  volume_attachments: { by: 'service/cell/operations/volumes/store.ts dropAttachment', when: 'detached' },
  volume_usage_readings: { with: 'volumes' },
  volume_usage_samples: { by: 'service/cell/metering/volume-store.ts dropOldVolumeSamples', when: '400 days' },
  volumes: { by: 'service/cell/operations/volumes/store.ts dropDeletedVolumes', when: '30 days after it was deleted' },
  workspace_authorities: { with: 'workspaces' },
  workspace_egress: { with: 'workspaces' },
  workspace_holds: { by: 'service/cell/reconcile/reconcile-store.ts dropStaleHolds', when: 'the operation has ended' },
  workspace_keys: { for_good: 'the key of a deleted workspace stays used: 100 bytes for each workspace that ever was' },
  workspace_ports: { with: 'workspaces' },
  workspace_secrets: { with: 'workspaces' },
  workspaces: { by: 'service/cell/reconcile/expiry-store.ts dropTombstones', when: '30 days after it was deleted' },
}
