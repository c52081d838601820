export type Closed = Readonly<Partial<Record<string, readonly string[]>>>

/** The specification's sets (App, "Errors" and Cell, "Errors"), and Berth's own. */
export const SPECIFIED: Readonly<Record<'app' | 'cell', Closed>> = {
  app: {
    bad_request: [],
    token_invalid: [],
    unauthenticated: [],
    invalid_credentials: [],
    entitlement_required: ['no_plan', 'limits_missing', 'not_included', 'payment_past_due', 'unpaid', 'operator_hold'],
    allowance_exhausted: ['allowance_used', 'overage_paused', 'spend_cap_reached'],
    quota_exceeded: [],
    forbidden: ['template_dev_mode_role', 'template_not_of_project', 'secret_not_available'],
    mfa_required: [],
    email_unverified: [],
    step_up_required: [],
    not_found: [
      'draft_not_found', 'version_not_found', 'path_not_found', 'checkpoint_not_found', 'draft_state_not_found', 'package_not_found',
      'log_not_available', 'log_expired',
    ], // prettier-ignore
    conflict: [
      'operation_in_progress', 'workspace_not_running', 'workspace_deleted', 'not_running', 'already_running', 'not_suspended',
      'not_snapshottable', 'not_forkable', 'not_resettable', 'key_in_use', 'lifetime_mismatch', 'session_lifetime', 'not_session',
      'legacy_disk_layout', 'layout_unsupported', 'not_supported_for_mode', 'mode_mismatch', 'template_not_layered', 'draft_exists',
      'draft_stale', 'build_in_progress', 'build_finished', 'file_list_unavailable', 'file_list_indexing', 'guest_feature_unavailable',
      'package_index_unavailable', 'template_archived', 'version_archived', 'name_taken', 'secret_deleted', 'concurrent_rotation',
      'version_mismatch', 'name_in_use', 'volume_attached', 'volume_creating', 'volume_not_available', 'volume_not_shared',
      'already_attached', 'detach_in_progress', 'attach_in_progress', 'mount_path_conflict', 'subscription_exists',
      'checkout_superseded', 'subscription_active', 'checkout_pending', 'organization_ownership', 'last_owner',
      'concurrent_invitation', 'export_expired', 'export_too_large',
    ], // prettier-ignore
    payload_too_large: [],
    unsupported_media_type: [],
    validation_failed: [
      'reserved_key_prefix', 'mode_not_available', 'not_supported_for_mode', 'confirm_destructive_required', 'secret_not_available',
      'env_collision', 'input_required', 'input_unknown', 'input_invalid', 'egress_widening', 'reserved_prefix', 'nul_character',
      'too_large', 'invalid_recipe', 'invalid_path', 'invalid_package', 'invalid_host', 'invalid_settings', 'base_not_found',
      'base_archived', 'base_not_published', 'architecture_not_supported', 'base_not_layered', 'base_required', 'language_unavailable',
      'language_conflict', 'too_many_files', 'too_many_steps', 'too_many_hosts', 'recipe_too_large', 'platform_owned_path',
      'upload_required', 'upload_missing', 'upload_digest_mismatch', 'upload_too_large', 'extra_hosts_without_auto',
      'allow_hosts_without_allowlist', 'allowlist_empty', 'services_unsupported', 'invalid_defaults', 'update_policy_not_available',
      'too_many_acknowledged_findings', 'platform_template_slug', 'reserved_template_slug', 'slug_not_supported_by_builder',
      'overage_unavailable', 'spend_cap_required', 'spend_cap_below_minimum', 'spend_cap_above_plan_price', 'spend_cap_below_charges',
      'plan_not_purchasable',
    ], // prettier-ignore
    idempotency_mismatch: [],
    rate_limited: ['mfa_locked'],
    internal_error: [],
    dependency_unavailable: [
      'package_search_unavailable', 'package_index_loading', 'uploads_not_configured', 'build_log_bucket_not_configured', 'signing_failed',
    ], // prettier-ignore
  },
  cell: {
    bad_request: [],
    // A file-first command is a start: docs/decisions/billing.md.
    entitlement_required: ['no_plan', 'limits_missing', 'payment_past_due', 'unpaid', 'operator_hold'],
    allowance_exhausted: ['allowance_used', 'overage_paused', 'spend_cap_reached'],
    unauthenticated: ['revoked_watermark', 'revoked_workspace', 'revoked_api_key', 'revoked_api_key_tools'],
    forbidden: ['secret_not_available'],
    not_found: ['path_not_found', 'session_not_found', 'outside_tree_root', 'process_not_found'],
    conflict: [
      'stale_endpoint', 'operation_id_reused', 'operation_interrupted', 'output_expired', 'legacy_disk_layout',
      'guest_feature_unavailable', 'host_feature_unavailable', 'not_supported_for_mode', 'already_exists', 'not_empty', 'not_a_file',
      'not_a_directory', 'revision_mismatch', 'tree_revision_mismatch', 'execution_id_reused',
      'stdin_gap', 'stdin_closed', // for a stdin that stays open: docs/decisions/command-sessions.md
      'different_filesystem', // for a move: docs/decisions/agent.md
      'not_permitted', 'path_busy', // the guest kernel's answers about a path
      'session_ended', // for a signal, and for input typed into a terminal
      // The specification names only processes, git and the browser: docs/decisions/agent.md.
      'not_a_repository', 'nothing_to_commit', 'git_authentication_failed', 'git_failed', 'navigation_failed', 'browser_failed',
    ], // prettier-ignore
    stale_epoch: [],
    workspace_not_running: ['offline_unavailable', 'offline_budget'],
    workspace_busy: ['workspace_fenced', 'execution_in_progress'],
    payload_too_large: [],
    range_not_satisfiable: [],
    validation_failed: [
      'invalid_cwd', 'invalid_path', 'reserved_prefix', 'env_collision', 'not_supported_for_mode', 'edit_not_found', 'edit_ambiguous',
      'edit_not_text', 'patch_invalid', 'outside_tree_root',
    ], // prettier-ignore
    rate_limited: ['disk_full', 'too_many_sessions', 'resource_limit', 'terminal_full'],
    internal_error: [],
    dependency_unavailable: ['offline_changed'],
    service_unavailable: ['host_capacity', 'wake_failed', 'draining', 'too_many_streams', 'no_execution_host'],
    timeout: [],
  },
}

/** No route answers these refusals. A feature that answers one removes its line here. */
export const NEVER_ANSWERED: Readonly<Record<'app' | 'cell', Readonly<Record<string, string>>>> = {
  app: {
    'forbidden/secret_not_available': 'commands and terminals start at the gateway, which answers it',
    'not_found/log_not_available': 'a build has a log from its beginning on; one of no lines is an empty text (decision 299)',
    'conflict/guest_feature_unavailable':
      'no route of the application API asks a guest: the gateway answers it, and an operation fails with it',
    'validation_failed/services_unsupported': 'every version may have services',
    'validation_failed/slug_not_supported_by_builder': 'every slug that a template may have can be built',
    'dependency_unavailable/build_log_bucket_not_configured': 'logs of builds are rows of the database: there is nothing to configure',
  },
  cell: {},
}
