import { BUILD_LIMITS } from './limits-builds.ts'
import { PORT_LIMITS } from './limits-ports.ts'
import { PER_DAY } from './limits-per-day.ts'
import { SHARE_LIMITS } from './limits-shares.ts'

/** Limits of both specifications ("Limits"). "Berth's own" marks the others. */
export const LIMITS = {
  page: {
    size_max: 200,
    size_default: 50,
    cursor_characters_max: 200,
  },
  idempotency: {
    key_characters_max: 255,
    seconds: 24 * 3600,
    kept_refusals_per_hour: 10_000, // Berth's own: stored for Idempotency-Key, of an API key or a person
  },
  request_id: {
    characters_min: 8,
    characters_max: 64,
  },
  cors: {
    preflight_seconds: 600, // Berth's own: how long a browser caches a preflight answer
  },
  wait: {
    seconds_max: 20,
    held_calls_max: 5000, // Berth's own: concurrent held calls of one process; more answer 503
    held_calls_per_principal_max: 1000, // Berth's own: of these, those of one caller; more answer 429
    capacity_wait_seconds: 15 * 60,
  },
  caller: {
    // Berth's own limits of one process. Settings change the first two.
    requests_per_minute: 60_000, // of an API key or a person
    wrong_credentials_per_minute: 1200, // looked up for one address; more are refused without a look-up
    changes_per_day: 500_000, // of an organization's keys together, or of a person; deletions do not count
    waiting_changes_per_tenant_max: 500, // queued behind other changes of the organization; more answer 429
    change_wait_seconds_max: 10,
    callers_counted_max: 50_000, // Berth's own, as the next two: entries counted in memory
    addresses_counted_max: 50_000,
    credentials_known_max: 50_000,
  },
  credential: {
    tool_token_seconds: 15 * 60,
    tool_tokens_per_hour: 3600,
    step_up_seconds: 10 * 60,
    signing_key_overlap_seconds: 60, // Berth's own: time after a rotation until every api process signs with the new key
    revocation_seconds_max: 30,
    revocation_held_seconds_max: 45, // Berth's own: longest delay of a revocation's answer while a host has not confirmed it
    signatures_at_once_max: 2, // Berth's own, as the next two: verifications of tool tokens that are new to a gateway
    signatures_waiting_per_address_max: 500, // more answer 429
    signatures_waiting_max: 2000,
  },
  sign_in: {
    session_idle_days: 30,
    session_days_max: 90,
    sessions_per_person_max: 100, // Berth's own: the least recently used one ends
    email_characters_max: 254,
    password_characters_min: 10, // Berth's own, as all that follow
    password_characters_max: 256,
    name_characters_max: 100,
    device_characters_max: 100,
    token_characters_max: 200,
    body_bytes_max: 16 << 10,
    wrong_passwords_per_account_and_hour: 60, // for one address, whether the address has an account or not
    wrong_passwords_per_source_and_minute: 120, // of one network address
    wrong_passwords_per_minute: 600, // of all callers, except accounts and sources that signed in recently: half of what one processor hashes
    wrong_passwords_per_session_and_hour: 60,
    known_days: 30, // how long a sign-in makes its account and source known to a process
    mails_per_address_and_hour: 5, // that a caller may request without a session
    mails_per_source_and_hour: 200,
    hashes_waiting_per_source_max: 100, // for one network address, or for one session
    hashes_waiting_max: 500, // passwords that wait for a check; more answer 503
    wrong_codes_max: 5, // wrong codes of the second factor before the factor is locked
    lock_seconds: 15 * 60, // doubled with each wrong code after the first lock
    lock_seconds_max: 24 * 3600,
    recovery_codes: 10,
    verify_hours: 24,
    reset_minutes: 60,
    pending_totp_minutes: 15,
  },
  mail: {
    send_seconds_max: 60, // Berth's own, as the next four: of one try
    retry_seconds_min: 10, // doubled with each try
    retry_seconds_max: 3600,
    try_hours_max: 48,
    kept_days: 7, // records of mails that were sent or given up
  },
  audit: {
    looked_max: 5000, // Berth's own: records that one page of a filtered list reads
    export_rows_max: 100_000, // Berth's own: of one answer
    tool_calls_per_minute_max: 50_000, // Berth's own: pairs of principal and workspace that one gateway records in a minute
  },
  export: {
    raw_bytes_max: 2 * 2 ** 30, // Berth's own, as all that follow: of all its files; a larger export fails
    file_bytes_max: 8 << 20, // of one file in it
    part_bytes: 1 << 20, // size of a stored part
    kept_hours: 72,
    told_days: 30, // how long the export is listed
    minutes_max: 30, // of one attempt
    attempts_max: 5,
  },
  feedback: {
    message_characters_max: 8000,
    context_characters_max: 1000, // Berth's own
    body_bytes_max: 1 << 17, // Berth's own: JSON may take twelve bytes for a character
    per_10_minutes: 10,
    per_day: 50,
    per_organization_and_day: 200,
  },
  organization: {
    name_characters_max: 100, // Berth's own, as all that follow
    slug_characters_max: 63,
    owned_per_person_max: 20,
    projects_max: 1000,
    invitations_max: 500, // pending
    invitation_days: 7,
    invitation_resend_seconds: 60,
    keys_per_project_max: 500, // in force
    key_name_characters_max: 100,
  },
  per_day: PER_DAY,
  json: {
    body_bytes_max: 1 << 20, // Berth's own
    values_max: 10_000, // Berth's own: bounds the time to validate a body, and its list of issues
    levels_max: 32, // Berth's own: nesting depth
  },
  input: {
    bytes_max: 4096,
    names_told_max: 100, // Berth's own: inputs that a refusal names, each with so many characters at most
    name_told_characters_max: 200,
  },
  // Berth's own limits of the startup of a template version.
  startup: {
    commands_max: 20,
    services_max: 10,
    argv_max: 100,
    word_bytes_max: 16_384,
    command_seconds_default: 600,
    command_seconds_max: 3600,
    ready_seconds_default: 60,
    ready_seconds_max: 600,
    output_tail_bytes: 4096, // of a failed step
  },
  warm: { seconds_max: 900, retry_seconds: 3600, room_wait_seconds: 60 }, // Berth's own: pre-started machines
  ...BUILD_LIMITS,
  ...SHARE_LIMITS,
  template_package: {
    lookups_per_minute: 120,
    index_hours: 24, // Berth's own: maximum age of an index before it is fetched again
    index_bytes_max: 256 << 20, // Berth's own
  },
  workspace: {
    delete_told_seconds_max: 1, // Berth's own: longest delay of a delete's answer until the gateway knows of it
    key_characters_max: 200,
    agent_label_characters_max: 100,
    agent_sessions_max: 1000, // Berth's own: of a workspace; the least recently used is dropped
    tombstone_days: 30, // Berth's own
    recovery_checkpoint_days: 7,
    operations_kept: 100, // Berth's own: the newest of a workspace are kept at any age; older ones go after tombstone_days
    agent_sessions_kept: 1000, // Berth's own: as operations_kept, for unused sessions
    label_characters_max: 4096, // Berth's own: a checkpoint's label
    snapshots_per_workspace_max: 50, // Berth's own
    removals_per_sweep_max: 200, // Berth's own: in one reconciliation of rows and host; the next one follows a minute later
  },
  secret: {
    per_workspace_max: 50,
    per_project_max: 1000, // Berth's own, as the next: not deleted
    per_organization_max: 2000, // with those of all its projects
    value_bytes_max: 65_536,
    body_bytes_max: 1 << 19, // Berth's own: JSON may take six characters for a byte
    name_characters_max: 200, // Berth's own
    description_characters_max: 1000, // Berth's own
    allowed_ids_max: 200, // Berth's own
    hosts_max: 16, // Berth's own
    host_ports_max: 4, // Berth's own
    host_place_characters_max: 200, // Berth's own: a header, user or query parameter
    resolutions_per_minute: 1200, // Berth's own: starts with a secret's value, of one workspace
  },
  idle: {
    suspend_after_seconds_min: 30,
    suspend_after_seconds_max: 3600,
    fixed_seconds_min: 60,
    fixed_seconds_max: 604_800,
    adaptive_seconds_min: 10,
    adaptive_seconds_max: 4 * 3600,
    adaptive_seconds_default: 5 * 60,
    session_seconds: 10 * 60,
    retry_seconds_min: 60, // Berth's own: delay after a failed idle suspend, doubled with each failure
    retry_seconds_max: 6 * 3600,
    command_busy_seconds_max: 3600,
    keepalive_seconds_max: 12 * 3600,
    background_seconds_max: 12 * 3600, // Berth's own: how long an unused machine without load may remain resident
    wake_hint_seconds: 60,
    wake_seconds_max: 30, // Berth's own: how long a call waits for its machine
  },
  volume: {
    name_characters_max: 100, // Berth's own
    quota_gib_max: 16_384, // Berth's own
    attachments_per_workspace_max: 16, // Berth's own: an upper limit of every plan
    mount_path_bytes_max: 512, // Berth's own
  },
  port: PORT_LIMITS,
  egress: {
    rules_max: 256,
    cidrs_max: 64,
    ports_max: 64, // Berth's own: of one rule
    host_characters_max: 1024, // Berth's own: before normalisation
    versions_max: 200, // Berth's own: of one project or workspace; the oldest are dropped
    denials_max: 200, // Berth's own: the latest of one workspace
    denial_hours: 24, // Berth's own
  },
  usage: {
    final_after_hours: 2, // Berth's own: between the end of an hour and its ledger entries
    hourly_days_max: 31,
    daily_days_max: 400,
    sample_days: 400, // Berth's own: hourly samples
    counter_days: 7, // Berth's own: last counters of a machine that has ended
  },
  billing: {
    due_days: 14, // Berth's own, as the next: between issue and the refusal of new starts
    grace_days: 14, // after the due date: payment_past_due with grace_until, then unpaid
  },
  payment: {
    checkout_minutes: 60, // Berth's own, as all of these: lifetime of a checkout page; the payment service requires at least 30
    call_seconds_max: 20, // one call of the payment service
    event_bytes_max: 256 * 1024,
    event_age_seconds_max: 300, // between the signature of an event and its arrival
    event_kept_days: 30, // ids of events, to recognise a repeat
    retry_seconds_min: 10, // doubled with each try
    retry_seconds_max: 3600,
    look_again_seconds: 6 * 3600, // polls for events that did not arrive
  },
  spend: {
    warning_percent: 80,
    cap_minor_min: 100, // Berth's own: the least cap, and the least price of a plan with overage
    cap_minor_max: 1_000_000_00, // Berth's own
    alert_thresholds_percent: [50, 80, 100], // Berth's own: the default
    alert_thresholds_max: 10, // Berth's own
  },
  exec: {
    stdin_bytes_max: 1 << 20, // at the start, and of each later call
    stdin_wait_seconds: 10, // Berth's own: how long input waits for a command to read it; stdinWaitMax of machine/internal/agent/session
    body_bytes_max: 8 << 20, // Berth's own: stdin, for which JSON may take six characters a byte, argv and env
    argv_max: 1024, // Berth's own
    env_max: 1024, // Berth's own
    arguments_bytes_max: 128 << 10, // Berth's own: argv and env together
    timeout_ms_max: 24 * 3600 * 1000, // Berth's own
    kill_grace_ms_default: 5000, // Berth's own
    kill_grace_ms_max: 60_000, // Berth's own
    session_id_characters_max: 128,
    records_kept_max: 10_000, // Berth's own: of ended commands; sessionMax of machine/internal/agent/session
    argv_listed_bytes: 512, // Berth's own: shown of a command in a list; argvBytesMax of machine/internal/agent/listing
  },
  execution: {
    id_characters_min: 8,
    id_characters_max: 128,
    output_bytes_default: 1 << 20, // of stdout and stderr each
    output_bytes_max: 16 << 20,
    changed_max: 10_000,
    kept_days: 7,
    results_bytes_per_organization_max: 2 * 2 ** 30, // Berth's own: above it the oldest results lose their output and list of changes
    timeout_ms_default: 3600 * 1000, // Berth's own: an execution cannot be cancelled, and blocks changes of its workspace
    changes_max: 200_000, // Berth's own: files, directories and links changed by one execution
    room_wait_ms: 15_000, // Berth's own: how long a call waits for capacity
    overtime_seconds: 60, // Berth's own: after timeout_ms, before a guest that does not end the command is stopped
    written_within_seconds: 60, // Berth's own: retries of writing a result while the database is down; then it is lost
    copy_kept_hours: 24, // Berth's own: how long the host keeps an unused copy of a tree
  },
  file: {
    write_bytes_max: 7 << 20,
    revision_header_bytes_max: 16 << 20,
    revision_stat_bytes_max: 256 << 20,
    path_bytes_max: 4096,
    list_entries_default: 1000, // Berth's own
    list_entries_max: 10_000, // Berth's own
    cursor_characters_max: 6000, // Berth's own: a cursor may contain a path
    idempotency_key_characters_max: 100,
    idempotency_keys_max: 10_000, // Berth's own: remembered for a workspace, with at most 4 MiB of records
    patch_body_bytes_max: 7 << 20,
    patch_edits_max: 1000, // Berth's own
    patch_file_bytes_max: 16 << 20, // Berth's own: the largest file that edits apply to
    patch_read_bytes_max: 256 << 20, // Berth's own: number of edits times file size, without a machine
    changes_page_max: 1000,
    changes_hash_bytes_max: 256 << 20, // Berth's own
  },
  tree: {
    entries_max: 2_000_000, // Berth's own: files, directories and links of a file-first workspace
    name_bytes_max: 255,
    revisions_kept_seconds_default: 3600, // Berth's own: how long a superseded revision is readable; a setting changes it, as the next
    revisions_kept_default: 100, // Berth's own: readable revisions of a workspace
    revisions_kept_seconds_max: 30 * 24 * 3600, // Berth's own
    revisions_kept_max: 10_000, // Berth's own
    diff_names_max: 100_000, // Berth's own: names of both sides, read for one page of a comparison or for a summary
    diff_seconds_max: 10, // Berth's own
    restore_counted_max: 10_000, // Berth's own: differences counted while a caller waits for a restore
    written_disks_per_hour_max: 2, // Berth's own: writes in an hour, in multiples of the disk size
    blob_grace_seconds: 3600, // Berth's own: between the last use of an unreferenced blob and its deletion
  },
  tar: {
    upload_bytes_max: 256 << 20, // Berth's own: of one tar to unpack
    entries_max: 100_000, // Berth's own: of one tar to unpack, or packed by a machine
    download_bytes_max: 2 ** 40, // Berth's own: of one tar packed by a machine
  },
  search: {
    body_bytes_max: 4 << 20, // Berth's own
    pattern_bytes_max: 4096, // Berth's own
    globs_max: 64, // Berth's own
    glob_bytes_max: 256, // Berth's own
    matches_default: 200,
    matches_max: 5000,
    file_bytes_default: 1 << 20,
    file_bytes_max: 16 << 20, // Berth's own
    context_lines_max: 5,
    seconds_max: 10, // Berth's own: of one search, as the next four
    bytes_max: 1 << 30,
    entries_max: 1_000_000,
    answer_bytes_max: 8 << 20,
    depth_max: 1024,
  },
  process: {
    list_default: 1000, // Berth's own
    list_max: 4096, // Berth's own
    command_bytes_max: 4096, // Berth's own: shown of one command line
  },
  git: {
    clone_timeout_ms_default: 120_000, // Berth's own
    clone_timeout_ms_max: 600_000, // Berth's own
    timeout_ms: 60_000, // Berth's own: status and commit
    url_characters_max: 2048, // Berth's own
    ref_characters_max: 255, // Berth's own
    depth_max: 1_000_000, // Berth's own
    authorization_characters_max: 4096, // Berth's own
    status_files_max: 10_000, // Berth's own
    message_characters_max: 65_536, // Berth's own
    commit_paths_max: 1000, // Berth's own
  },
  browser: {
    url_characters_max: 8192, // Berth's own
    viewport_pixels_max: 4096, // Berth's own
    wait_ms_max: 30_000, // Berth's own
    timeout_ms_default: 30_000, // Berth's own
    timeout_ms_max: 120_000, // Berth's own
    answer_bytes_max: 16 << 20, // Berth's own
  },
  stream: {
    heartbeat_seconds: 15,
    per_cell_max: 5000, // Berth's own
    per_organization_max: 1000, // Berth's own, and at most its fair share; more answer 503
    per_workspace_max: 500, // Berth's own; more answer 429
    stalled_seconds_max: 300, // Berth's own: how long a reader may read none of its pending data
  },
  tool_call: {
    answer_bytes_per_cell_max: 256 << 20, // Berth's own: requests and answers buffered in memory; more answer 503
    calls_per_workspace_max: 128, // Berth's own: concurrent calls; more answer 429 with Retry-After: 1
    resource_limit_retry_seconds: 1,
  },
  terminal: {
    size_max: 1000, // Berth's own: columns, rows
    records_kept_max: 1000, // Berth's own: of ended terminals; keptMax of machine/internal/agent/pty
    cols_default: 80, // Berth's own
    rows_default: 24, // Berth's own
    input_bytes_max: 64 << 10, // Berth's own: of one input
    attach_message_bytes_max: 128 << 10, // Berth's own: one message of a client
  },
  client_versions: {
    cache_seconds: 3600,
  },
} as const
