/** Every bound of both documents' "Limits", and those that Berth adds (marked so). Units are in the names. */
export const LIMITS = {
  page_size_max: 200,
  page_size_default: 50,
  cursor_characters_max: 200,
  idempotency_key_characters_max: 255,
  idempotency_seconds: 24 * 3600,
  request_id_characters_min: 8,
  request_id_characters_max: 64,
  wait_seconds_max: 20,
  held_calls_max: 5000, // Berth's own: calls held at once in one process; more are answered without waiting
  capacity_wait_seconds: 15 * 60,
  tool_token_seconds: 15 * 60,
  tool_tokens_per_hour: 3600,
  key_characters_max: 200,
  agent_label_characters_max: 100,
  secrets_per_workspace_max: 50,
  input_bytes_max: 4096,
  suspend_after_seconds_min: 30,
  suspend_after_seconds_max: 3600,
  idle_fixed_seconds_min: 60,
  idle_fixed_seconds_max: 604_800,
  idle_adaptive_seconds_min: 10,
  idle_adaptive_seconds_max: 4 * 3600,
  idle_adaptive_seconds_default: 5 * 60,
  idle_session_seconds: 10 * 60,
  client_versions_cache_seconds: 3600,
  tombstone_days: 30, // Berth's own: DECISIONS, "Workspaces"
  recovery_checkpoint_days: 7,
  revocation_seconds_max: 30,
  json_body_bytes_max: 1 << 20, // Berth's own
  label_characters_max: 200, // Berth's own: a checkpoint's label

  exec_stdin_bytes_max: 1 << 20,
  exec_body_bytes_max: 4 << 20, // Berth's own: base64 stdin, argv and env
  exec_argv_max: 1024, // Berth's own
  exec_env_max: 1024, // Berth's own
  exec_arguments_bytes_max: 128 << 10, // Berth's own: argv and env together
  exec_timeout_ms_max: 24 * 3600 * 1000, // Berth's own
  exec_kill_grace_ms_default: 5000, // Berth's own
  exec_kill_grace_ms_max: 60_000, // Berth's own
  session_id_characters_max: 128,
  file_write_bytes_max: 7 << 20,
  file_revision_header_bytes_max: 16 << 20,
  file_revision_stat_bytes_max: 256 << 20,
  file_path_bytes_max: 4096,
  file_list_entries_default: 1000, // Berth's own
  file_list_entries_max: 10_000, // Berth's own
  file_idempotency_key_characters_max: 100,
  command_busy_seconds_max: 3600,
  keepalive_seconds_max: 12 * 3600,
  heartbeat_seconds: 15,
  streams_per_cell_max: 5000, // Berth's own
  calls_per_workspace_max: 128, // Berth's own: calls at once; more answer 429 with Retry-After: 1
  resource_limit_retry_seconds: 1,
} as const
