import { AUDIT_GRANTS } from './grants-audit.ts'
import { PAYMENT_GRANTS } from './grants-payment.ts'
import { PEOPLE_GRANTS } from './grants-people.ts'
import type { Database } from './schema.ts'

/** `all` includes future columns. Operators' commands and migrations act as the owner. */
export interface Rights<Column> {
  select?: 'all' | readonly Column[]
  insert?: 'all' | readonly Column[]
  update?: readonly Column[]
  delete?: true
}

type Grants = { [T in keyof Database]: { api: Rights<keyof Database[T]>; cell: Rights<keyof Database[T]> } } & {
  kysely_migration: { api: Rights<'name' | 'needs'>; cell: Rights<'name' | 'needs'> }
}

const READS = { select: 'all' } as const
const NOTHING = {}

/**
 * `migrate` applies these rights, so a new column must be listed before a process can write it.
 * The cell runs hostile guests, so it reads only what its admission needs of people and credentials, never a credential.
 */
export const GRANTS = {
  installation: { api: { select: ['id'] }, cell: { select: ['id'] } },
  plans: {
    api: READS,
    // Includes the limits of starts, because the cell resumes workspaces for visitors of ports.
    cell: {
      select: [
        'id',
        'slug',
        'concurrent_workspaces',
        'cpu_millis',
        'memory_mib',
        'disk_gib',
        'missing_limits',
        'cpu_hours',
        'ram_gib_hours',
        'refuses_starts',
        'currency',
        'price_minor',
        'cpu_hour_minor',
        'ram_gib_hour_minor',
      ],
    },
  },
  organizations: {
    api: {
      select: 'all',
      insert: 'all',
      update: ['name', 'plan_id', 'deleting_at', 'deleted_at', 'billed_through', 'payment_refuses_starts', 'payment_grace_until'],
    },
    cell: {
      select: [
        'id',
        'plan_id',
        'refuses_starts',
        'grace_until',
        'payment_refuses_starts',
        'payment_grace_until',
        'allowance_exhausted',
        'allowance',
        'deleted_at',
      ],
      update: ['allowance_exhausted', 'allowance'],
    },
  },
  ...PEOPLE_GRANTS,
  // The api's update right also lets it lock a template.
  templates: { api: { select: 'all', insert: 'all', update: ['archived_at'] }, cell: READS },
  // The cell creates versions and never changes them.
  template_versions: { api: { select: 'all', update: ['published_at', 'archived_at'] }, cell: { select: 'all', insert: 'all' } },
  template_builds: {
    api: { select: 'all', insert: 'all' },
    cell: { select: 'all', update: ['findings', 'version_id', 'log_bytes', 'spec'] },
  },
  template_drafts: { api: { select: 'all', insert: 'all', update: ['discarded_at'] }, cell: READS },
  template_draft_states: { api: { select: 'all', insert: 'all' }, cell: { select: 'all', update: ['layers'] } },
  template_build_logs: { api: READS, cell: { select: 'all', insert: 'all', delete: true } },
  template_build_steps: { api: NOTHING, cell: { select: 'all', insert: 'all', update: ['layer', 'used_at'], delete: true } },
  unnamed_layers: { api: NOTHING, cell: { select: 'all', insert: 'all', delete: true } },
  template_captures: {
    api: READS,
    cell: {
      select: 'all',
      insert: 'all',
      update: ['state', 'checkpoint_id', 'engine', 'agent_protocol', 'resources', 'size_bytes', 'error', 'updated_at', 'used_at'],
      delete: true,
    },
  },
  layer_lists: {
    api: { select: 'all', insert: 'all', update: ['state', 'updated_at'] },
    cell: { select: 'all', update: ['state', 'reached', 'updated_at'], delete: true },
  },
  layer_directories: { api: READS, cell: { select: 'all', insert: 'all', delete: true } },
  template_uploads: {
    api: { select: 'all', insert: 'all', update: ['parts', 'received_bytes', 'complete', 'used_at'], delete: true },
    cell: READS,
  },
  cells: {
    api: READS,
    cell: {
      select: 'all',
      insert: 'all',
      update: ['endpoint', 'engine', 'capacity_cpu_millis', 'capacity_memory_mib', 'capacity_disk_gib', 'seen_at', 'measured_at'],
    },
  },
  // Both processes may begin the same change, so both may write some of the columns.
  workspaces: {
    api: {
      select: 'all',
      insert: 'all',
      update: [
        'observed_state',
        'desired_state',
        'pending_reason',
        'ended_reason',
        'cell_id',
        'inputs',
        'idle_policy',
        'suspend_requested_at',
        'suspend_after_seconds',
        'suspend_not_before',
        'tokens_revoked_before',
        'updated_at',
        'deleted_at',
      ],
    },
    cell: {
      select: 'all',
      update: [
        'observed_state',
        'desired_state',
        'pending_reason',
        'ended_reason',
        'cell_id',
        'ownership_epoch',
        'disk',
        'checkpoint_id',
        'residency',
        'residency_fence',
        'state_layers',
        'grant_cpu_millis',
        'grant_memory_mib',
        'grant_disk_gib',
        'active_at',
        'tool_call_at',
        'busy_until',
        'keepalive_until',
        'suspend_requested_at',
        'suspend_after_seconds',
        'suspend_not_before',
        'tree_revision',
        'startup',
        'idle_failures',
        'idle_retry_at',
        'tokens_revoked_before',
        'updated_at',
        'deleted_at',
      ],
      delete: true,
    },
  },
  workspace_keys: {
    api: { select: 'all', insert: 'all', update: ['project_id', 'workspace_id', 'reusable'] },
    cell: { select: 'all', update: ['reusable'], delete: true },
  },
  checkpoints: {
    api: { select: 'all', update: ['deleted_at'] },
    cell: { select: 'all', insert: 'all', update: ['kind', 'operation_id', 'expires_at'], delete: true },
  },
  // Triggers write the rows of workspaces, with the rights of the owner.
  machines: {
    api: NOTHING,
    cell: {
      select: 'all',
      insert: 'all',
      update: ['cell_id', 'grant_cpu_millis', 'grant_memory_mib', 'grant_disk_gib', 'fence'],
      delete: true,
    },
  },
  operations: {
    api: { select: 'all', insert: 'all', update: ['state', 'state_reason', 'result', 'error', 'updated_at', 'started_at', 'completed_at'] },
    cell: {
      select: 'all',
      insert: 'all',
      update: [
        'source_workspace_id',
        'state',
        'state_reason',
        'result',
        'error',
        'updated_at',
        'started_at',
        'completed_at',
        'deadline_at',
        'cell_id',
        'attempt',
        'fence',
        'step',
        'progress',
      ],
      delete: true,
    },
  },
  workspace_holds: {
    api: { select: 'all', insert: 'all', delete: true },
    cell: { select: 'all', insert: 'all', update: ['gate'], delete: true },
  },
  idempotency_entries: {
    api: { select: 'all', insert: 'all', update: ['fingerprint', 'outcome', 'created_at'], delete: true },
    cell: NOTHING,
  },
  agent_sessions: {
    api: { select: 'all', insert: 'all', update: ['last_used_at'], delete: true },
    cell: { select: ['id', 'workspace_id', 'last_used_at'], delete: true },
  },
  service_keys: { api: { select: 'all', insert: 'all', update: ['check_sha256', 'retired_at'] }, cell: NOTHING },
  signing_keys: { api: { select: 'all', insert: 'all' }, cell: READS },
  // The api can seal and erase values, but cannot read them.
  sealing_keys: { api: READS, cell: { select: 'all', insert: 'all' } },
  secrets: {
    api: {
      select: 'all',
      insert: 'all',
      update: [
        'description',
        'allowed_project_ids',
        'allowed_workspace_ids',
        'allowed_tools',
        'hosts',
        'version',
        'updated_at',
        'deleted_at',
      ],
    },
    cell: READS,
  },
  secret_versions: {
    api: {
      select: ['id', 'secret_id', 'version', 'created_at', 'erased_at', 'key_id'],
      insert: 'all',
      update: ['erased_at', 'key_id', 'wrapped_key', 'ciphertext'],
    },
    cell: { select: ['secret_id', 'version', 'key_id', 'wrapped_key', 'ciphertext'] },
  },
  workspace_secrets: { api: { select: 'all', insert: 'all', delete: true }, cell: READS },
  // The api assigns a fork the authority of its source.
  authorities: { api: NOTHING, cell: { select: 'all', insert: 'all' } },
  workspace_authorities: { api: { select: 'all', insert: 'all' }, cell: { select: 'all', insert: 'all' } },
  rate_buckets: { api: { select: 'all', insert: 'all', update: ['tokens', 'updated_at'], delete: true }, cell: NOTHING },
  usage_samples: {
    api: READS,
    cell: {
      select: 'all',
      insert: 'all',
      update: [
        'cpu_usec',
        'memory_byte_ms',
        'disk_byte_ms',
        'port_received_bytes',
        'port_sent_bytes',
        'checkpoint_byte_ms',
        'rx_bytes',
        'tx_bytes',
        'sampled_ms',
        'is_open',
        'entries',
      ],
      delete: true,
    },
  },
  usage_counters: {
    api: NOTHING,
    cell: { select: 'all', insert: 'all', update: ['cpu_usec', 'rx_bytes', 'tx_bytes', 'read_at', 'run', 'monotonic_ms'], delete: true },
  },
  usage_storage: {
    api: NOTHING,
    cell: {
      select: 'all',
      insert: 'all',
      update: ['read_at', 'run', 'monotonic_ms', 'disk_read_at', 'disk_run', 'disk_monotonic_ms'],
      delete: true,
    },
  },
  // Append-only ledger.
  usage_entries: { api: READS, cell: { select: 'all', insert: 'all' } },
  spend_policies: {
    api: { select: 'all', insert: 'all', update: ['version', 'overage_enabled', 'spend_cap_minor', 'enabled_in', 'changed_at'] },
    cell: READS,
  },
  // Updated by the api, because an operator or the payment service marks invoices paid.
  subscription_changes: { api: { select: 'all', insert: 'all' }, cell: NOTHING },
  overage_periods: { api: { select: 'all', insert: 'all', update: ['spend_cap_minor'] }, cell: NOTHING },
  invoices: { api: { select: 'all', insert: 'all', update: ['state', 'paid_at', 'voided_at'] }, cell: NOTHING },
  ...PAYMENT_GRANTS,
  // Both processes draw credits: the cell with each reading of counters, the api when a period closes.
  usage_grants: { api: READS, cell: READS },
  usage_grant_draws: {
    api: { select: 'all', insert: 'all', update: ['meter_units', 'drawn_at'] },
    cell: { select: 'all', insert: 'all', update: ['meter_units', 'drawn_at'] },
  },
  spend_alert_settings: { api: { select: 'all', insert: 'all', update: ['thresholds_percent', 'changed_at'] }, cell: READS },
  spend_alerts: { api: { select: 'all', update: ['mailed_at'] }, cell: { select: 'all', insert: 'all' } },
  usage_hours: {
    api: READS,
    cell: {
      select: 'all',
      insert: 'all',
      update: ['cpu_seconds', 'memory_gib_seconds', 'storage_gib_seconds', 'egress_bytes', 'ingress_bytes', 'volume_storage_gib_seconds'],
    },
  },
  // Only triggers write this table, with the rights of the owner.
  usage_open_hours: { api: READS, cell: READS },
  trees: {
    api: { select: 'all', insert: 'all' },
    cell: {
      select: 'all',
      update: ['revision', 'root', 'entries', 'bytes', 'updated_at', 'collected_at', 'execution_id', 'changes', 'made_by'],
      delete: true,
    },
  },
  tree_revisions: { api: READS, cell: { select: 'all', insert: 'all', delete: true } },
  tree_keys: { api: NOTHING, cell: { select: 'all', insert: 'all', delete: true } },
  executions: {
    api: NOTHING,
    cell: {
      select: 'all',
      insert: 'all',
      update: [
        'state',
        'tree_revision',
        'exit_code',
        'term_signal',
        'timed_out',
        'stdout',
        'stderr',
        'stdout_truncated',
        'stderr_truncated',
        'changed',
        'changed_truncated',
        'timings',
        'error',
        'finished_at',
      ],
      delete: true,
    },
  },
  volumes: {
    api: { select: 'all', insert: 'all', update: ['state', 'updated_at', 'deleted_at'] },
    cell: { select: 'all', update: ['state', 'cell_id', 'updated_at'], delete: true },
  },
  volume_attachments: {
    api: { select: 'all', insert: 'all', update: ['state', 'operation_id', 'updated_at'] },
    cell: { select: 'all', update: ['state', 'operation_id', 'updated_at'], delete: true },
  },
  volume_usage_samples: {
    api: READS,
    cell: { select: 'all', insert: 'all', update: ['stored_byte_ms', 'sampled_ms', 'is_open', 'entries'], delete: true },
  },
  volume_usage_readings: {
    api: NOTHING,
    cell: { select: 'all', insert: 'all', update: ['read_at', 'run', 'monotonic_ms'], delete: true },
  },
  // The table stores only digests of credentials.
  workspace_ports: {
    api: { select: 'all', insert: 'all', delete: true },
    cell: { select: 'all', update: ['requests', 'received_bytes', 'sent_bytes', 'last_request_at'] },
  },
  port_credentials: { api: { select: 'all', insert: 'all', delete: true }, cell: { select: 'all', delete: true } },
  egress_versions: { api: { select: 'all', insert: 'all', delete: true }, cell: READS },
  workspace_egress: {
    api: READS,
    cell: { select: 'all', insert: 'all', update: ['epoch', 'fence', 'revision', 'state', 'acknowledged_at'] },
  },
  egress_denials: {
    api: READS,
    cell: { select: 'all', insert: 'all', update: ['name', 'count', 'last_at'], delete: true },
  },
  ...AUDIT_GRANTS,
  kysely_migration: { api: { select: ['name', 'needs'] }, cell: { select: ['name', 'needs'] } },
} as const satisfies Grants
