/** Codes of both specifications (App "Errors", Cell "Errors"). An answer has no other code. */

export interface CodeRule {
  status: number
  retryable: boolean
}

/** App, "Application API codes". Only `conflict` is retryable depending on its reason. */
export const APP_CODES = {
  bad_request: { status: 400, retryable: false },
  token_invalid: { status: 400, retryable: false },
  unauthenticated: { status: 401, retryable: false },
  invalid_credentials: { status: 401, retryable: false },
  entitlement_required: { status: 402, retryable: false },
  allowance_exhausted: { status: 402, retryable: false },
  quota_exceeded: { status: 403, retryable: false },
  forbidden: { status: 403, retryable: false },
  mfa_required: { status: 403, retryable: false },
  email_unverified: { status: 403, retryable: false },
  step_up_required: { status: 403, retryable: false },
  not_found: { status: 404, retryable: false },
  conflict: { status: 409, retryable: false },
  payload_too_large: { status: 413, retryable: false },
  unsupported_media_type: { status: 415, retryable: false },
  validation_failed: { status: 422, retryable: false },
  idempotency_mismatch: { status: 422, retryable: false },
  rate_limited: { status: 429, retryable: true },
  internal_error: { status: 500, retryable: true },
  dependency_unavailable: { status: 503, retryable: true },
} as const satisfies Record<string, CodeRule>

/** See the specification (Cell, "Cell gateway codes"). */
export const CELL_CODES = {
  bad_request: { status: 400, retryable: false },
  unauthenticated: { status: 401, retryable: false },
  // Not in the specification: a command of a file-first workspace is admitted like a start (decision 211).
  entitlement_required: { status: 402, retryable: false },
  allowance_exhausted: { status: 402, retryable: false },
  forbidden: { status: 403, retryable: false },
  not_found: { status: 404, retryable: false },
  conflict: { status: 409, retryable: false },
  stale_epoch: { status: 409, retryable: true },
  workspace_not_running: { status: 409, retryable: true },
  workspace_busy: { status: 409, retryable: true },
  payload_too_large: { status: 413, retryable: false },
  range_not_satisfiable: { status: 416, retryable: false },
  validation_failed: { status: 422, retryable: false },
  rate_limited: { status: 429, retryable: true },
  internal_error: { status: 500, retryable: false },
  dependency_unavailable: { status: 503, retryable: true },
  service_unavailable: { status: 503, retryable: true },
  timeout: { status: 504, retryable: true },
} as const satisfies Record<string, CodeRule>

export type AppCode = keyof typeof APP_CODES
export type CellCode = keyof typeof CELL_CODES
export type Surface = 'app' | 'cell'

export const NO_REASON = [null] as const

export const START_REASONS = {
  entitlement_required: ['no_plan', 'limits_missing', 'payment_past_due', 'unpaid', 'operator_hold'],
  allowance_exhausted: ['allowance_used', 'overage_paused', 'spend_cap_reached'],
} as const

/** Reasons of the specification (App "Reasons"), and Berth’s own. An absent code has none. */
export const APP_REASONS = {
  entitlement_required: ['no_plan', 'limits_missing', 'not_included', 'payment_past_due', 'unpaid', 'operator_hold'],
  allowance_exhausted: START_REASONS.allowance_exhausted,
  forbidden: ['template_dev_mode_role', 'template_not_of_project', 'secret_not_available'],
  not_found: [
    'draft_not_found',
    'version_not_found',
    'checkpoint_not_found',
    'draft_state_not_found',
    'path_not_found',
    'log_expired',
    'package_not_found',
  ],
  conflict: [
    'operation_in_progress',
    'workspace_not_running',
    'workspace_deleted',
    'not_running',
    'already_running',
    'not_suspended',
    'not_snapshottable',
    'not_forkable',
    'not_resettable',
    'key_in_use',
    'lifetime_mismatch',
    'session_lifetime',
    'not_session',
    'legacy_disk_layout',
    'layout_unsupported',
    'not_supported_for_mode',
    'mode_mismatch',
    'template_archived',
    'template_not_layered',
    'draft_exists',
    'draft_stale',
    'build_in_progress',
    'build_finished',
    'file_list_unavailable',
    'file_list_indexing',
    'version_archived',
    'package_index_unavailable',
    'name_in_use',
    'volume_attached',
    'volume_creating',
    'volume_not_available',
    'volume_not_shared',
    'already_attached',
    'attach_in_progress',
    'detach_in_progress',
    'mount_path_conflict',
    'name_taken',
    'secret_deleted',
    'concurrent_rotation',
    'version_mismatch',
    'subscription_exists',
    'checkout_superseded',
    'subscription_active',
    'checkout_pending',
    'organization_ownership',
    'last_owner',
    'concurrent_invitation',
    'export_expired',
    'export_too_large',
  ],
  validation_failed: [
    'reserved_key_prefix',
    'mode_not_available',
    'not_supported_for_mode',
    'confirm_destructive_required',
    'secret_not_available',
    'env_collision',
    'input_required',
    'input_unknown',
    'input_invalid',
    'reserved_prefix',
    'nul_character',
    'invalid_path',
    'too_large',
    'egress_widening',
    'plan_not_purchasable',
    'invalid_recipe',
    'invalid_package',
    'invalid_host',
    'invalid_settings',
    'platform_owned_path',
    'language_unavailable',
    'language_conflict',
    'too_many_files',
    'too_many_steps',
    'too_many_hosts',
    'recipe_too_large',
    'extra_hosts_without_auto',
    'allow_hosts_without_allowlist',
    'allowlist_empty',
    'base_required',
    'base_not_found',
    'base_archived',
    'base_not_published',
    'base_not_layered',
    'architecture_not_supported',
    'upload_required',
    'upload_missing',
    'reserved_template_slug',
    'platform_template_slug',
    'invalid_defaults',
    'update_policy_not_available',
    'too_many_acknowledged_findings',
    'upload_digest_mismatch',
    'upload_too_large',
    'overage_unavailable',
    'spend_cap_required',
    'spend_cap_below_minimum',
    'spend_cap_above_plan_price',
    'spend_cap_below_charges',
  ],
  rate_limited: ['mfa_locked'],
  dependency_unavailable: ['signing_failed', 'uploads_not_configured', 'package_search_unavailable', 'package_index_loading'],
} as const satisfies Partial<Record<AppCode, readonly string[]>>

export const CELL_REASONS = {
  ...START_REASONS,
  unauthenticated: ['revoked_watermark', 'revoked_workspace', 'revoked_api_key', 'revoked_api_key_tools'],
  forbidden: ['secret_not_available'],
  not_found: ['path_not_found', 'outside_tree_root', 'session_not_found', 'process_not_found'],
  conflict: [
    'stale_endpoint',
    'operation_id_reused',
    'operation_interrupted',
    'output_expired',
    'stdin_gap',
    'stdin_closed',
    'legacy_disk_layout',
    'guest_feature_unavailable',
    'host_feature_unavailable',
    'not_supported_for_mode',
    'already_exists',
    'not_empty',
    'not_a_file',
    'not_a_directory',
    'different_filesystem',
    'not_permitted',
    'path_busy',
    'session_ended',
    'revision_mismatch',
    'tree_revision_mismatch',
    'execution_id_reused',
    'not_a_repository',
    'nothing_to_commit',
    'git_authentication_failed',
    'git_failed',
    'navigation_failed',
    'browser_failed',
  ],
  workspace_not_running: ['offline_unavailable', 'offline_budget'],
  workspace_busy: ['workspace_fenced', 'execution_in_progress'],
  validation_failed: [
    'invalid_cwd',
    'invalid_path',
    'outside_tree_root',
    'reserved_prefix',
    'env_collision',
    'not_supported_for_mode',
    'edit_not_found',
    'edit_ambiguous',
    'edit_not_text',
    'patch_invalid',
  ],
  rate_limited: ['disk_full', 'too_many_sessions', 'resource_limit', 'terminal_full'],
  dependency_unavailable: ['offline_changed'],
  service_unavailable: ['host_capacity', 'wake_failed', 'draining', 'too_many_streams', 'no_execution_host'],
} as const satisfies Partial<Record<CellCode, readonly string[]>>

export type ReasonIn<Reasons, C> = C extends keyof Reasons ? (Reasons[C] extends readonly (infer R)[] ? R : never) : never
export type IsOne<C, All = C> = C extends unknown ? ([All] extends [C] ? true : false) : never
/** Any string if the code is known only at run time. */
export type ReasonOf<C extends AppCode | CellCode> =
  IsOne<C> extends true ? ReasonIn<typeof APP_REASONS, C> | ReasonIn<typeof CELL_REASONS, C> : string

/** Reasons that make a code retryable (App, "409 conflict reasons"). */
const RETRYABLE_REASONS: Readonly<Record<Surface, Partial<Record<string, readonly string[]>>>> = {
  app: {
    conflict: [
      'operation_in_progress',
      'workspace_not_running',
      'attach_in_progress',
      'concurrent_rotation',
      'file_list_indexing',
      'build_in_progress',
    ] satisfies ReasonOf<'conflict'>[],
  },
  cell: {},
}

export function isRetryable(surface: Surface, code: string, reason: string | null): boolean {
  const codes: Partial<Record<string, CodeRule>> = surface === 'app' ? APP_CODES : CELL_CODES
  return codes[code]?.retryable === true || (reason !== null && (RETRYABLE_REASONS[surface][code]?.includes(reason) ?? false))
}

/** Codes of the specification (App, "Operation errors"), and Berth's own. */
export const OPERATION_ERRORS = {
  capacity_unavailable: { retryable: true },
  invalid_resources: { retryable: false },
  startup_failed: { retryable: true },
  layout_unsupported: { retryable: false },
  dependency_failed: { retryable: true },
  checkpoint_failed: { retryable: true },
  checkpoint_corrupt: { retryable: false },
  checkpoint_incompatible: { retryable: false },
  interrupted: { retryable: true },
  canceled: { retryable: false },
  internal_error: { retryable: true },
} as const satisfies Record<string, { retryable: boolean }>

/**
 * Reasons why a checkpoint's memory was refused: `details.reason` of checkpoint_incompatible and checkpoint_corrupt, and
 * `details.memory_refused` of a failed wake (docs/decisions/checkpoints.md).
 */
export const MEMORY_REFUSALS = ['service_version', 'engine_refused', 'processor', 'agent_protocol', 'engine_not_kept', 'damaged'] as const
export type MemoryRefusal = (typeof MEMORY_REFUSALS)[number]

/** Reasons of startup_failed (App, "Operation errors"). */
export const STARTUP_REASONS = [
  'startup_failed',
  'service_not_ready',
  'secrets_unavailable',
  'secret_not_available',
  'guest_feature_unavailable',
] as const
export type StartupReason = (typeof STARTUP_REASONS)[number]

/** Why a warm machine could not be made (docs/decisions/templates.md). */
export const WARM_REASONS = [
  ...STARTUP_REASONS,
  'timed_out', // the whole startup took too long
  'no_answer', // the guest exited or hangs
  'machine_failed', // the host could not start or save the machine
] as const
export type WarmReason = (typeof WARM_REASONS)[number]

export type OperationErrorCode = keyof typeof OPERATION_ERRORS

/** Reasons of failed executions (Cell, "Execution"), with their codes. */
export const EXECUTION_REASONS = {
  exec_failed_to_start: 'validation_failed', // no such program, or no such directory
  start_failed: 'dependency_unavailable', // the machine did not start
  layout_unsupported: 'conflict',
  guest_feature_unavailable: 'conflict',
  invalid_name: 'validation_failed', // a file name is not UTF-8, or a path is too long
  disk_full: 'rate_limited', // more bytes or entries than the workspace may have
  too_many_changes: 'validation_failed',
  tree_moved: 'conflict',
  blob_missing: 'internal_error',
  blob_corrupt: 'internal_error',
  internal_error: 'internal_error',
  lease_expired: 'dependency_unavailable',
  host_unreachable: 'dependency_unavailable',
  host_restarted: 'dependency_unavailable',
} as const satisfies Record<string, CellCode>
export type ExecutionReason = keyof typeof EXECUTION_REASONS
