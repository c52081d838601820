import { BUILD_LIMITS } from './limits-builds.ts'
import { PORT_LIMITS } from './limits-ports.ts'
import { PER_DAY } from './limits-per-day.ts'
import { SHARE_LIMITS } from './limits-shares.ts'

/** Every bound of both documents' "Limits", and those that Berth adds (marked so), by what they bound. Units are in the names. */
export const LIMITS = {
  page: {
    size_max: 200,
    size_default: 50,
    cursor_characters_max: 200,
  },
  idempotency: {
    key_characters_max: 255,
    seconds: 24 * 3600,
    kept_refusals_per_hour: 10_000, // Berth's own: of an API key or a person, for an Idempotency-Key
  },
  request_id: {
    characters_min: 8,
    characters_max: 64,
  },
  cors: {
    preflight_seconds: 600, // Berth's own: for so long a browser need not ask again what a page of another origin may
  },
  wait: {
    seconds_max: 20,
    held_calls_max: 5000, // Berth's own: calls held at once in one process; more answer 503
    held_calls_per_principal_max: 1000, // Berth's own: of these, of one caller; more answer 429
    capacity_wait_seconds: 15 * 60,
  },
  caller: {
    // Berth's own: what one caller may ask of one process. A setting changes the first two.
    requests_per_minute: 60_000, // of an API key or a person
    wrong_credentials_per_minute: 1200, // looked up for one address; more are refused unseen
    changes_per_day: 500_000, // of an organization's keys together, or of a person; deletions are not among them
    waiting_changes_per_tenant_max: 500, // for the other changes of an organization; more answer 429
    change_wait_seconds_max: 10,
    callers_counted_max: 50_000, // Berth's own, as the next two: counted in memory at once
    addresses_counted_max: 50_000,
    credentials_known_max: 50_000,
  },
  credential: {
    tool_token_seconds: 15 * 60,
    tool_tokens_per_hour: 3600,
    step_up_seconds: 10 * 60,
    signing_key_overlap_seconds: 60, // Berth's own: until every api signs with the new key after a rotation
    revocation_seconds_max: 30,
    revocation_held_seconds_max: 45, // Berth's own: until the answer to a revocation leaves although a computer has not confirmed it
    signatures_at_once_max: 2, // Berth's own, as the next two: of tool tokens that a gateway sees for the first time
    signatures_waiting_per_address_max: 500, // more answer 429
    signatures_waiting_max: 2000,
  },
  sign_in: {
    session_idle_days: 30,
    session_days_max: 90,
    sessions_per_person_max: 100, // Berth's own: the one that was used longest ago ends
    email_characters_max: 254,
    password_characters_min: 10, // Berth's own, as all that follow
    password_characters_max: 256,
    name_characters_max: 100,
    device_characters_max: 100,
    token_characters_max: 200,
    body_bytes_max: 16 << 10,
    wrong_passwords_per_account_and_hour: 60, // of an address that there may be no account of
    wrong_passwords_per_source_and_minute: 120, // of one network address
    wrong_passwords_per_minute: 600, // of everybody together, but for accounts and sources that signed in lately: half of what one processor hashes
    wrong_passwords_per_session_and_hour: 60,
    known_days: 30, // for so long a sign-in makes its account and its source known to a process
    mails_per_address_and_hour: 5, // that anybody may ask for without a session
    mails_per_source_and_hour: 200,
    hashes_waiting_per_source_max: 100, // of one network address, or of one session
    hashes_waiting_max: 500, // passwords that wait for their turn to be checked; more answer 503
    wrong_codes_max: 5, // of the second factor, before it is locked
    lock_seconds: 15 * 60, // doubled with each wrong code after the first lock
    lock_seconds_max: 24 * 3600,
    recovery_codes: 10,
    verify_hours: 24,
    reset_minutes: 60,
    pending_totp_minutes: 15,
  },
  mail: {
    send_seconds_max: 60, // Berth's own, as the next four: one try
    retry_seconds_min: 10, // doubled with each try
    retry_seconds_max: 3600,
    try_hours_max: 48,
    kept_days: 7, // what is known of a mail that was sent or given up
  },
  audit: {
    looked_max: 5000, // Berth's own: records that one page of a list with filters looks at
    export_rows_max: 100_000, // Berth's own: of one answer
    tool_calls_per_minute_max: 50_000, // Berth's own: principals with tools and workspaces that one gateway records in a minute
  },
  export: {
    raw_bytes_max: 2 * 2 ** 30, // Berth's own, as all that follow: of its files together; one that would have more is refused
    file_bytes_max: 8 << 20, // of one file in it
    part_bytes: 1 << 20, // as they are kept
    kept_hours: 72,
    told_days: 30, // that there was one
    minutes_max: 30, // one attempt
    attempts_max: 5,
  },
  feedback: {
    message_characters_max: 8000,
    context_characters_max: 1000, // Berth's own
    body_bytes_max: 1 << 17, // Berth's own: a message, of which JSON may make twelve bytes a character
    per_10_minutes: 10,
    per_day: 50,
    per_organization_and_day: 200,
  },
  organization: {
    name_characters_max: 100, // Berth's own, as all that follow
    slug_characters_max: 63,
    owned_per_person_max: 20,
    projects_max: 1000,
    invitations_max: 500, // that wait to be accepted
    invitation_days: 7,
    invitation_resend_seconds: 60,
    keys_per_project_max: 500, // in force
    key_name_characters_max: 100,
  },
  per_day: PER_DAY,
  json: {
    body_bytes_max: 1 << 20, // Berth's own
    values_max: 10_000, // Berth's own: no body has this many; more would only be time spent on a long list of issues
    levels_max: 32, // Berth's own: of lists and objects in one another
  },
  input: {
    bytes_max: 4096,
    names_told_max: 100, // Berth's own: how many inputs a refusal names, and of each so many characters
    name_told_characters_max: 200,
  },
  // Berth's own: what a template version may have run at the start of a machine.
  startup: {
    commands_max: 20,
    services_max: 10,
    argv_max: 100,
    word_bytes_max: 16_384,
    command_seconds_default: 600,
    command_seconds_max: 3600,
    ready_seconds_default: 60,
    ready_seconds_max: 600,
    output_tail_bytes: 4096, // of a step that failed
  },
  warm: { seconds_max: 900, retry_seconds: 3600, room_wait_seconds: 60 }, // Berth's own: machines that are started up ahead
  ...BUILD_LIMITS,
  ...SHARE_LIMITS,
  template_package: {
    lookups_per_minute: 120,
    index_hours: 24, // Berth's own: how old an index may be before it is read anew
    index_bytes_max: 256 << 20, // Berth's own
  },
  workspace: {
    delete_told_seconds_max: 1, // Berth's own: how long the answer to a delete waits for the gateway to know of it
    key_characters_max: 200,
    agent_label_characters_max: 100,
    agent_sessions_max: 1000, // Berth's own: of a workspace; the one that was used longest ago goes
    tombstone_days: 30, // Berth's own
    recovery_checkpoint_days: 7,
    operations_kept: 100, // Berth's own: the newest of a workspace, whatever their age; older ones go after tombstone_days
    agent_sessions_kept: 1000, // Berth's own: as with operations, of those that are not used
    label_characters_max: 4096, // Berth's own: a checkpoint's label
    snapshots_per_workspace_max: 50, // Berth's own
    removals_per_sweep_max: 200, // Berth's own: what one comparison of rows and host removes; the rest waits a minute for the next
  },
  secret: {
    per_workspace_max: 50,
    per_project_max: 1000, // Berth's own, as the next: that are not deleted
    per_organization_max: 2000, // with those of all its projects
    value_bytes_max: 65_536,
    body_bytes_max: 1 << 19, // Berth's own: a value, of which JSON may make six characters a byte
    name_characters_max: 200, // Berth's own
    description_characters_max: 1000, // Berth's own
    allowed_ids_max: 200, // Berth's own
    hosts_max: 16, // Berth's own
    host_ports_max: 4, // Berth's own
    host_place_characters_max: 200, // Berth's own: a header, a user, a parameter
    resolutions_per_minute: 1200, // Berth's own: starts of a workspace that were given a secret's value
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
    retry_seconds_min: 60, // Berth's own: before an idle suspend that failed is begun again, doubled with each failure
    retry_seconds_max: 6 * 3600,
    command_busy_seconds_max: 3600,
    keepalive_seconds_max: 12 * 3600,
    background_seconds_max: 12 * 3600, // Berth's own: how long a machine may stay resident that is unused and quiet
    wake_hint_seconds: 60,
    wake_seconds_max: 30, // Berth's own: how long a call waits for its machine
  },
  volume: {
    name_characters_max: 100, // Berth's own
    quota_gib_max: 16_384, // Berth's own
    attachments_per_workspace_max: 16, // Berth's own: whatever the plan says
    mount_path_bytes_max: 512, // Berth's own
  },
  port: PORT_LIMITS,
  egress: {
    rules_max: 256,
    cidrs_max: 64,
    ports_max: 64, // Berth's own: of one rule
    host_characters_max: 1024, // Berth's own: as it is written, before it is normalized
    versions_max: 200, // Berth's own: of one project or workspace; the oldest go
    denials_max: 200, // Berth's own: of one workspace, those that were refused last
    denial_hours: 24, // Berth's own
  },
  usage: {
    final_after_hours: 2, // Berth's own: after the end of an hour, until its ledger entries are written
    hourly_days_max: 31,
    daily_days_max: 400,
    sample_days: 400, // Berth's own: samples of an hour
    counter_days: 7, // Berth's own: the last counters of a machine that is gone
  },
  billing: {
    due_days: 14, // Berth's own, as the next: after an invoice is issued, until new starts are refused
    grace_days: 14, // after it was due: payment_past_due with grace_until, then unpaid
  },
  payment: {
    checkout_minutes: 60, // Berth's own, as all of these: so long a page waits to be paid; the payment service asks for at least 30
    call_seconds_max: 20, // one call of the payment service
    event_bytes_max: 256 * 1024,
    event_age_seconds_max: 300, // between the signature of an event and its arrival
    event_kept_days: 30, // its id, by which a repeat is known
    retry_seconds_min: 10, // doubled with each try
    retry_seconds_max: 3600,
    look_again_seconds: 6 * 3600, // at what an event should have told of
  },
  spend: {
    warning_percent: 80,
    cap_minor_min: 100, // Berth's own: a smaller cap, or plan, allows no overage
    cap_minor_max: 1_000_000_00, // Berth's own
    alert_thresholds_percent: [50, 80, 100], // Berth's own, where nobody has decided
    alert_thresholds_max: 10, // Berth's own
  },
  exec: {
    stdin_bytes_max: 1 << 20, // at the start, and for each later call
    stdin_wait_seconds: 10, // Berth's own: for a command to read what is sent; stdinWaitMax of machine/internal/agent/session
    body_bytes_max: 8 << 20, // Berth's own: stdin, of which JSON may make six characters a byte, argv and env
    argv_max: 1024, // Berth's own
    env_max: 1024, // Berth's own
    arguments_bytes_max: 128 << 10, // Berth's own: argv and env together
    timeout_ms_max: 24 * 3600 * 1000, // Berth's own
    kill_grace_ms_default: 5000, // Berth's own
    kill_grace_ms_max: 60_000, // Berth's own
    session_id_characters_max: 128,
    records_kept_max: 10_000, // Berth's own: of commands that have ended; sessionMax of machine/internal/agent/session
    argv_listed_bytes: 512, // Berth's own: what a list tells of a command; argvBytesMax of machine/internal/agent/listing
  },
  execution: {
    id_characters_min: 8,
    id_characters_max: 128,
    output_bytes_default: 1 << 20, // of stdout and stderr each
    output_bytes_max: 16 << 20,
    changed_max: 10_000,
    kept_days: 7,
    results_bytes_per_organization_max: 2 * 2 ** 30, // Berth's own: beyond these the oldest results keep no output and no list of changes
    timeout_ms_default: 3600 * 1000, // Berth's own: nothing can cancel one, and its workspace takes no change until it ends
    changes_max: 200_000, // Berth's own: files, directories and links that one may change
    room_wait_ms: 15_000, // Berth's own: how long a call waits for room
    overtime_seconds: 60, // Berth's own: how long after its timeout_ms a guest that does not end the command is stopped
    written_within_seconds: 60, // Berth's own: how long its end is written again while the database refuses; then it is lost
    copy_kept_hours: 24, // Berth's own: how long the host keeps its copy of a tree that nobody runs on
  },
  file: {
    write_bytes_max: 7 << 20,
    revision_header_bytes_max: 16 << 20,
    revision_stat_bytes_max: 256 << 20,
    path_bytes_max: 4096,
    list_entries_default: 1000, // Berth's own
    list_entries_max: 10_000, // Berth's own
    cursor_characters_max: 6000, // Berth's own: a path may be in it
    idempotency_key_characters_max: 100,
    idempotency_keys_max: 10_000, // Berth's own: remembered a workspace, and at most 4 MiB of records
    patch_body_bytes_max: 7 << 20,
    patch_edits_max: 1000, // Berth's own
    patch_file_bytes_max: 16 << 20, // Berth's own: the largest file that edits apply to
    patch_read_bytes_max: 256 << 20, // Berth's own: edits, times the bytes of a file without a machine
    changes_page_max: 1000,
    changes_hash_bytes_max: 256 << 20, // Berth's own
  },
  tree: {
    entries_max: 2_000_000, // Berth's own: files, directories and links of a file-first workspace
    name_bytes_max: 255,
    revisions_kept_seconds_default: 3600, // Berth's own: how long a revision is read after the next one; a setting changes it, as the next
    revisions_kept_default: 100, // Berth's own: how many of a workspace are read
    revisions_kept_seconds_max: 30 * 24 * 3600, // Berth's own
    revisions_kept_max: 10_000, // Berth's own
    diff_names_max: 100_000, // Berth's own: of both sides, looked at for one page of a comparison, or for a summary
    diff_seconds_max: 10, // Berth's own
    restore_counted_max: 10_000, // Berth's own: differences that are counted while a restore is waited for
    written_disks_per_hour_max: 2, // Berth's own: how many times its disk a workspace stores in that time
    blob_grace_seconds: 3600, // Berth's own: what nothing names goes this long after it was last used
  },
  tar: {
    upload_bytes_max: 256 << 20, // Berth's own: of one tar that is unpacked
    entries_max: 100_000, // Berth's own: of one tar that is unpacked, or that a machine packs
    download_bytes_max: 2 ** 40, // Berth's own: of one that a machine packs
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
    command_bytes_max: 4096, // Berth's own: what is told of one command line
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
    per_organization_max: 1000, // Berth's own, and never more than what it leaves to others; more answer 503
    per_workspace_max: 500, // Berth's own; more answer 429
    stalled_seconds_max: 300, // Berth's own: how long a reader may take nothing of what waits for it
  },
  tool_call: {
    answer_bytes_per_cell_max: 256 << 20, // Berth's own: what calls hold in memory of requests and answers; more answer 503
    calls_per_workspace_max: 128, // Berth's own: calls at once; more answer 429 with Retry-After: 1
    resource_limit_retry_seconds: 1,
  },
  terminal: {
    size_max: 1000, // Berth's own: columns, rows
    records_kept_max: 1000, // Berth's own: of terminals that have ended; keptMax of machine/internal/agent/pty
    cols_default: 80, // Berth's own
    rows_default: 24, // Berth's own
    input_bytes_max: 64 << 10, // Berth's own: typed at once
    attach_message_bytes_max: 128 << 10, // Berth's own: one message of a client
  },
  client_versions: {
    cache_seconds: 3600,
  },
} as const
