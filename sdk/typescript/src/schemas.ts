// Made by `npm run openapi` from the contract. Do not change it by hand.
// An answer may have further properties, and further words where a type lists some: treat what you do not know as something new.

export type Accepted = {
  /** If the address is what the call is about, a mail is on its way */
  status: 'accepted'
}

export type AccountDelete = {
  confirm_email: string
}

export type AdoptRequest = {
  /** A relative of this workspace: both go back to one workspace by forks, over any number of them and in either direction */
  fork_workspace_id: string
  /** true: it is deleted once the adoption has succeeded, and its key can be used again. Default false */
  delete_fork?: boolean
}

export type AgentSession = {
  id: string
  workspace_id: string
  agent_label: string
  principal: {
    type: 'user' | 'api_key'
    id: string
  }
  created_at: string
  last_used_at: string
}

export type AgentSessionList = {
  data: AgentSession[]
  next_cursor: string | null
}

export type ApiKey = {
  id: string
  /** The public part: `sfk_<key_id>_…` */
  key_id: string
  organization_id: string
  project_id: string
  name: string
  tool_permissions: ('exec' | 'files' | 'pty' | 'process' | 'git' | 'browser')[]
  created_at: string
  expires_at: string | null
  revoked_at: string | null
  last_used_at: string | null
}

export type ApiKeyCreate = {
  name?: string
  /** What its tool tokens may do */
  tool_permissions: ('exec' | 'files' | 'pty' | 'process' | 'git' | 'browser')[]
  expires_at?: string | null
}

export type ApiKeyCreated = {
  id: string
  /** The public part: `sfk_<key_id>_…` */
  key_id: string
  organization_id: string
  project_id: string
  name: string
  tool_permissions: ('exec' | 'files' | 'pty' | 'process' | 'git' | 'browser')[]
  created_at: string
  expires_at: string | null
  revoked_at: string | null
  last_used_at: string | null
  /** The whole key. Shown this once */
  api_key: string
}

export type ApiKeyList = {
  data: ApiKey[]
  next_cursor: string | null
}

export type ApiKeyUpdate = {
  name?: string
  /** What its tool tokens may do */
  tool_permissions?: ('exec' | 'files' | 'pty' | 'process' | 'git' | 'browser')[]
  expires_at?: string | null
}

export type AuditEvent = {
  id: string
  created_at: string
  organization_id: string
  project_id: string | null
  actor: {
    kind: 'user' | 'api_key' | 'tool_token' | 'operator' | 'service'
    id: string | null
    name: string | null
  }
  /** The name of a route, or of one that would do the same */
  action: string
  subject: {
    kind: string
    id: string
  }
  request_id: string | null
  source_address: string | null
  /** Never a secret */
  details: Record<string, unknown>
  sequence: number | null
  sha256: string | null
}

export type AuditEventList = {
  data: AuditEvent[]
  next_cursor: string | null
}

export type BuildEgress = {
  /** auto: where Debian packages and those of languages come from, and extra_hosts. allowlist: allow_hosts alone */
  mode: 'auto' | 'allow_all' | 'allowlist' | 'deny_all'
  /** With auto alone */
  extra_hosts?: string[]
  /** With allowlist alone, and then at least one */
  allow_hosts?: string[]
}

export type Caps = {
  cpu_millis?: number
  memory_mib?: number
  disk_gib?: number
}

export type ChallengeRequest = {
  /** Six digits of the authenticator */
  code?: string
  /** In the place of a code */
  recovery_code?: string
}

export type Change = {
  path: string
  change: 'added' | 'modified' | 'metadata' | 'deleted' | 'replaced'
  /** Of what is there; of what was there when deleted */
  type: 'file' | 'directory' | 'symlink' | 'other'
  size: number
  /** Octal */
  mode: string
  sha256?: string
}

export type ChangeCounts = {
  added: number
  modified: number
  metadata: number
  deleted: number
  replaced: number
}

export type ChangedEmail = {
  email: string
}

export type Changes = {
  /** A directory, then what is in it, names byte by byte. Without what the service itself writes, as long as it is so: hostname, hosts, resolv.conf and machine-id below /etc */
  data: Change[]
  next_cursor: string | null
  summary: {
    added: number
    modified: number
    metadata: number
    deleted: number
    replaced: number
    /** Counting took too long: there are more */
    truncated: boolean
  } | null
}

export type CheckoutRequest = {
  /** Slug of a plan of the catalog */
  plan: string
}

export type Checkpoint = {
  id: string
  workspace_id: string
  /** The operation that wrote it */
  operation_id: string
  /** snapshot: kept until it or the workspace is deleted; recovery: kept until expires_at; suspend and fork: kept until the next suspend or adoption */
  kind: 'suspend' | 'fork' | 'snapshot' | 'recovery'
  label: string | null
  /** false: it is of a disk alone, and a machine of it starts from that */
  memory: boolean
  /** Stored bytes of its memory image */
  size_bytes: number
  disk_bytes: number | null
  resources: Resources
  created_at: string
  expires_at: string | null
}

export type CheckpointList = {
  data: Checkpoint[]
  next_cursor: string | null
}

export type ClientVersions = {
  clients: {
    package: string
    ecosystem: 'npm' | 'pypi'
    latest: string | null
    minimum_supported: string
    upgrade_command: string
    release_notes_url: string
  }[]
}

export type CodeRequest = {
  /** Six digits of the authenticator */
  code: string
}

export type CommandList = {
  data: ListedCommand[]
  next_cursor: string | null
}

export type CopyStep = {
  copy: string[]
  /** An absolute path: a directory where it ends with / or several are copied, else what the one is to be called */
  to: string
  /** root when absent */
  user?: string
  /** In octal digits */
  mode?: string
}

export type CurrentSession = {
  id: string
  device: string | null
  address: string | null
  created_at: string
  /** To the hour */
  last_used_at: string
  session_expires_at: string
  mfa_required: boolean
  email_verified: boolean
  stepped_up_until: string | null
  user: {
    id: string
    email: string
    email_verified: boolean
    display_name: string | null
    mfa_enabled: boolean
  } | null
}

export type DraftPublishRequest = {
  /** A state of the draft; omitted: what the draft holds now, which is captured */
  state_id?: string
  defaults?: TemplateDefaults
  /** Workspaces are opened with the version as soon as it is there */
  auto_publish?: boolean
  /** Absolute paths of files that may hold what looks like a secret; at most 200 */
  acknowledged_scan_findings?: string[]
  settings?: TemplateSettingsInput
  description?: string
}

export type DraftState = {
  id: string
  label: string | null
  /** Of the workspace of the draft */
  checkpoint_id: string
  /** What has captured it */
  operation_id: string
  size_bytes: number | null
  created_at: string
}

export type DraftStateList = {
  data: DraftState[]
  next_cursor: string | null
}

export type DraftStateRequest = {
  /** For people */
  label?: string
}

export type DraftTestInstanceRequest = {
  /** A state of the draft; omitted: the newest */
  state_id?: string
  /** Keys that start with sf: are reserved */
  key?: string
  caps?: Caps
  /** Names the agent session; `default` when absent */
  agent_label?: string
  /** Default: all that the principal may use. At least one: a token without any could call nothing, and `[]` is more often a slip */
  tools?: ('exec' | 'files' | 'pty' | 'process' | 'git' | 'browser')[]
  inputs?: Record<string, unknown>
}

export type EgressDenial = {
  name: string | null
  address: string | null
  port: number | null
  /** dns: the name itself was refused */
  protocol: 'tcp' | 'udp' | 'dns' | 'other'
  /** Packets or questions */
  count: number
  first_at: string
  last_at: string
}

export type EgressDenialList = {
  data: EgressDenial[]
  next_cursor: string | null
}

export type EgressPolicyRequest = {
  /** allow_all: all that is public. allowlist: what rules and cidrs name, and nothing without them. deny_all: nothing */
  mode: 'allow_all' | 'allowlist' | 'deny_all'
  /** With allowlist alone */
  rules?: {
    /** A fully qualified name, or `*.` and one: `*` stands for exactly one label. In lower case and ASCII (IDNA), which it becomes */
    host: string
    ports?: number[]
    protocols?: 'tcp'[]
  }[]
  /** With allowlist alone */
  cidrs?: string[]
}

export type EgressRule = {
  /** A fully qualified name, or `*.` and one: `*` stands for exactly one label. In lower case and ASCII (IDNA) */
  host: string
  ports: number[]
  protocols: 'tcp'[]
}

export type EgressRules = {
  /** allow_all: all that is public. allowlist: what rules and cidrs name, and nothing without them. deny_all: nothing */
  mode: 'allow_all' | 'allowlist' | 'deny_all'
  /** A set, as cidrs and ports are: their order means nothing, and may be another in each answer */
  rules: EgressRule[]
  cidrs: string[]
}

export type EgressVersion = {
  version: number
  /** The override was taken back: mode is null */
  cleared: boolean
  mode: ('allow_all' | 'allowlist' | 'deny_all') | null
  /** A set, as cidrs and ports are: their order means nothing, and may be another in each answer */
  rules: EgressRule[]
  cidrs: string[]
  created_at: string
  created_by: {
    type: 'user' | 'api_key'
    id: string
  }
}

export type EgressVersionList = {
  data: EgressVersion[]
  next_cursor: string | null
}

export type EmailChangeRequest = {
  new_email: string
}

export type EmailRequest = {
  email: string
}

export type EmailedTokenRequest = {
  /** From the link of a mail: what stands behind `#token=` */
  token: string
}

export type Entitlement = {
  name: 'concurrent_workspaces' | 'cpu_millis' | 'memory_mib' | 'disk_gib' | 'cpu_hours' | 'ram_gib_hours' | 'shared_volumes_max' | 'shared_volume_gib_max' | 'volume_attachments_per_workspace' | 'concurrent_template_builds'
  /** missing: what it limits is refused until the plan says it */
  kind: 'value' | 'unlimited' | 'missing'
  value: number | null
}

export type Entitlements = {
  organization_id: string
  /** Its slug */
  plan: string
  entitlements: Entitlement[]
}

export type ErrorEnvelope = {
  error: {
    /** One of a closed set of snake_case codes */
    code: string
    /** A sentence for people; never branch on it */
    message: string
    /** The value of the X-Request-Id header of this answer */
    request_id: string
    /** Whether the same request may succeed later */
    retryable: boolean
    /** The lifecycle operation that caused the error */
    operation_id?: string
    /** Details of the code, most often `reason` */
    details?: {
      reason?: string
      issues?: Issue[]
    }
  }
}

export type ExecSession = {
  session_id: string
  argv: string[]
  cwd: string
  user: string
  pid: number | null
  state: 'running' | 'exited' | 'failed_to_start' | 'lost'
  exit_code: number | null
  term_signal: string | null
  timed_out: boolean
  /** It failed, and a process of it had been ended: the workspace was about to be out of memory, or had more processes than it may */
  reason?: 'out_of_memory' | 'process_limit'
  started_at: string | null
  ended_at: string | null
  error: string | null
  stdout_bytes: number
  stderr_bytes: number
  /** First byte that is still retained. A workspace retains output up to the smaller of 2 GiB and a quarter of its disk, three quarters of that for all its commands together and the rest for its terminals; the oldest commands that have ended give theirs up first, unless those that run hold more than half. */
  stdout_available_from: number
  /** First byte that is still retained. A workspace retains output up to the smaller of 2 GiB and a quarter of its disk, three quarters of that for all its commands together and the rest for its terminals; the oldest commands that have ended give theirs up first, unless those that run hold more than half. */
  stderr_available_from: number
  stdin?: ExecStdin
}

export type ExecStart = {
  session_id?: string
  argv: string[]
  /** Absolute path, /home/user when absent */
  cwd?: string
  env?: Record<string, string>
  user?: string
  /** 1 MiB at most; then closed */
  stdin?: string
  stdin_encoding?: 'utf8' | 'base64'
  /** It is not closed after `stdin`: more may be sent, until it is closed or the command ends */
  stdin_open?: boolean
  timeout_ms?: number
  kill_grace_ms?: number
  secret_refs?: string[]
  /** File-first: required, 8 to 128 characters */
  execution_id?: string
  /** File-first: of stdout and stderr each, 1 to 16777216 */
  output_limit_bytes?: number
}

export type ExecStdin = {
  /** Bytes taken so far, those of `stdin` at the start among them; the command may not have read them yet */
  offset: number
  open: boolean
}

export type Execution = {
  execution_id: string
  state: 'queued' | 'running' | 'succeeded' | 'failed' | 'lost'
  /** That it runs on */
  base_revision: number
  tree_revision: number | null
  exit_code: number | null
  term_signal: string | null
  timed_out: boolean
  /** From its beginning, up to the limit */
  stdout: string
  /** From its beginning, up to the limit */
  stderr: string
  stdout_truncated: boolean
  stderr_truncated: boolean
  /** Of a directory that was deleted, only itself */
  changed: {
    path: string
    change: 'added' | 'modified' | 'deleted'
    type: 'file' | 'directory' | 'symlink'
  }[]
  changed_truncated: boolean
  timings: {
    /** Until a host had room */
    queued: number
    /** Until the host's copy of the files was at the base revision */
    tree: number
    /** Until the machine was ready */
    start: number
    /** Of the command */
    run: number
    /** Until the machine had ended */
    stop: number
    /** Until what it changed was the next revision */
    publish: number
  }
  error: {
    code: string
    message: string
    /** Whether the same command may succeed under another execution_id */
    retryable: boolean
    details: {
      reason: 'exec_failed_to_start' | 'start_failed' | 'layout_unsupported' | 'guest_feature_unavailable' | 'invalid_name' | 'disk_full' | 'too_many_changes' | 'tree_moved' | 'blob_missing' | 'blob_corrupt' | 'internal_error' | 'lease_expired' | 'host_unreachable' | 'host_restarted'
    }
  } | null
  created_at: string
  finished_at: string | null
}

export type ExecutionList = {
  data: ListedExecution[]
  next_cursor: string | null
}

export type Export = {
  id: string
  organization_id: string | null
  /** The person */
  requested_by: string
  /** Only one that is ready can be read */
  state: 'queued' | 'running' | 'ready' | 'failed' | 'expired'
  failure: ('export_too_large' | 'internal_error') | null
  size_bytes: number | null
  sha256: string | null
  created_at: string
  completed_at: string | null
  expires_at: string | null
}

export type ExportList = {
  data: Export[]
  next_cursor: string | null
}

export type Feedback = {
  /** Of the first one, where it is a duplicate */
  id: string
  received_at: string
  /** The same message came from the same caller within 24 hours */
  duplicate: boolean
}

export type FeedbackContext = {
  /** Which agent, by its label */
  agent?: string
  /** Its key or id */
  workspace?: string
  /** Of the answer that it is about */
  request_id?: string
  /** That was answered */
  error_code?: string
  /** That was run */
  command?: string
  /** The package and its version */
  client?: string
}

export type FeedbackCreate = {
  message: string
  /** Absent: other */
  category?: 'bug' | 'confusing' | 'missing' | 'idea' | 'praise' | 'other'
  context?: FeedbackContext
}

export type FileInfo = {
  /** Bytes that are not UTF-8 are shown escaped (`\xff`); a path with such a name cannot be asked for */
  path: string
  /** Bytes that are not UTF-8 are shown escaped (`\xff`); a path with such a name cannot be asked for */
  name: string
  type: 'file' | 'directory' | 'symlink' | 'other'
  size: number
  /** Octal */
  mode: string
  modified_at: string
  revision?: string
  /** Where a symbolic link leads */
  target?: string
}

export type FileList = {
  entries: FileInfo[]
  /** There is more */
  truncated: boolean
  next_cursor: string | null
}

export type FilePatch = {
  /** Absolute, UTF-8, 4096 bytes at most */
  path: string
  /** Each applies to the text that the one before left; at most 1000, in UTF-8 text of at most 16777216 bytes */
  edits?: {
    /** Not empty. Occurs exactly once, unless `replace_all` is set */
    old_text: string
    new_text: string
    replace_all?: boolean
  }[]
  /** The whole new content, of a new file as well */
  content?: string
  /** SHA-256 of the content, or `absent` for a file that is not there */
  expected_revision?: string
}

export type FileSearch = {
  /** A directory, or one file */
  path: string
  /** A literal, or with `regex` an RE2 expression, matched line by line; 4096 bytes at most */
  pattern: string
  regex?: boolean
  case_insensitive?: boolean
  /** Globs with `**` and `{a,b}`, 256 bytes at most. One with a slash is of the path below `path`, one without of the name, at any depth; an excluded directory is left out with all below it */
  include?: string[]
  /** Globs with `**` and `{a,b}`, 256 bytes at most. One with a slash is of the path below `path`, one without of the name, at any depth; an excluded directory is left out with all below it */
  exclude?: string[]
  max_matches?: number
  /** Larger files are skipped, as binary ones (with a NUL) are, and what is no regular file; links are not followed. More than 16777216 counts as that */
  max_file_bytes?: number
  context_lines?: number
  /** `next_cursor` of the answer before, to the same request: it goes on there */
  cursor?: string
}

export type ForkRequest = {
  /** Keys that start with sf: are reserved */
  key: string
  caps?: Caps
  lifetime?: 'persistent' | 'session'
}

export type ForkTreeRequest = {
  /** Keys that start with sf: are reserved */
  key: string
  /** A revision that is kept; the current one where it is not said */
  tree_revision?: number
}

export type GitCommitted = {
  /** Absolute, 4096 bytes at most */
  path: string
  branch: string | null
  commit: string
}

export type GitFile = {
  /** Below root; what is not UTF-8 is U+FFFD */
  path: string
  index: 'unmodified' | 'modified' | 'type_changed' | 'added' | 'deleted' | 'renamed' | 'copied' | 'unmerged' | 'untracked'
  worktree: 'unmodified' | 'modified' | 'type_changed' | 'added' | 'deleted' | 'renamed' | 'copied' | 'unmerged' | 'untracked'
  renamed_from: string | null
  conflicted: boolean
}

export type GitHead = {
  /** Absolute, 4096 bytes at most */
  path: string
  branch: string | null
  commit: string | null
}

export type GitStatus = {
  /** The top of the working tree */
  root: string
  branch: string | null
  head: string | null
  upstream: string | null
  ahead: number | null
  behind: number | null
  clean: boolean
  files: GitFile[]
  /** There are more files than these */
  truncated: boolean
}

export type HostedPage = {
  /** Where the person goes on */
  url: string
  expires_at: string | null
}

export type Idle = {
  /** `adaptive`, `never` or `fixed:<seconds>`: the one that applies */
  policy: string
  timeout_seconds: number | null
  /** Where the timeout comes from */
  basis: 'default' | 'fixed' | 'learned' | 'session' | 'never'
  next_eligible_at: string | null
  next_eligible_by: ('policy' | 'request') | null
  suspend_request: SuspendRequest | null
  recent_activity: {
    /** Of any kind */
    active_at: string
    tool_call_at: string | null
    busy_until: string | null
    keepalive_until: string | null
  }
  background_seconds: number | null
  /** Idle suspends that failed since one succeeded; each doubles the wait for the next */
  failed_suspends: number
}

export type IdleRecord = {
  /** `adaptive`, `never` or `fixed:<seconds>`: the one that applies */
  policy: string
  timeout_seconds: number | null
  /** Where the timeout comes from */
  basis: 'default' | 'fixed' | 'learned' | 'session' | 'never'
  recent_activity: {
    /** Of any kind */
    active_at: string
    tool_call_at: string | null
    busy_until: string | null
    keepalive_until: string | null
  }
  idle_since: string | null
  /** What keeps it from being idle: of calls, streams and commands the oldest few */
  awake: {
    /** call: a tool call in progress; stream: one that is attached; command: started through exec */
    kind: 'call' | 'stream' | 'command' | 'keepalive' | 'operation'
    since: string | null
    until: string | null
    session_id: string | null
    route: string | null
    operation_id: string | null
  }[]
  suspend_request: SuspendRequest | null
  suspend_at: string | null
  suspend_by: ('policy' | 'request') | null
  residency: Residency
  /** Idle suspends that failed since one succeeded; each doubles the wait for the next */
  failed_suspends: number
}

export type Invitation = {
  id: string
  organization_id: string
  email: string
  role: 'owner' | 'admin' | 'member' | 'billing'
  invited_by: string | null
  created_at: string
  expires_at: string
}

export type InvitationAccept = {
  /** From the link of a mail: what stands behind `#token=` */
  token: string
}

export type InvitationCreate = {
  email: string
  role: 'owner' | 'admin' | 'member' | 'billing'
}

export type InvitationList = {
  data: Invitation[]
  next_cursor: string | null
}

export type Invoice = {
  id: string
  organization_id: string
  number: string
  state: 'open' | 'paid' | 'void'
  period: {
    starts_at: string
    /** Its end, which is the beginning of the next */
    ends_at: string
  }
  currency: string
  lines: InvoiceLine[]
  /** Smallest units of the currency: the sum of the lines */
  total_minor: number
  issued_at: string
  /** From then on new starts are refused until it is paid */
  due_at: string
  paid_at: string | null
  voided_at: string | null
}

export type InvoiceLine = {
  /** plan: its price for a part of the period; overage: use beyond an allowance; cap: what is taken off, since no period costs more than its cap */
  kind: 'plan' | 'overage' | 'cap'
  /** Slug of the plan */
  plan: string
  starts_at: string
  ends_at: string
  allowance: ('cpu_hours' | 'ram_gib_hours') | null
  units: number | null
  unit_minor: number | null
  amount_minor: number
}

export type InvoiceList = {
  data: Invoice[]
  next_cursor: string | null
}

export type Issue = {
  /** Of a body: names and positions joined by dots. Else the name of the parameter or header */
  path: string
  message: string
  /** A word for it, for programs. Not every route has one */
  reason?: string
  /** Of a name that is not known: the known one that is most like it */
  nearest?: string
}

export type KeepaliveAnswer = {
  keepalive_until: string
}

export type ListedCommand = {
  session_id: string
  argv: string[]
  cwd: string
  user: string
  pid: number | null
  state: 'running' | 'exited' | 'failed_to_start' | 'lost'
  exit_code: number | null
  term_signal: string | null
  timed_out: boolean
  /** It failed, and a process of it had been ended: the workspace was about to be out of memory, or had more processes than it may */
  reason?: 'out_of_memory' | 'process_limit'
  started_at: string | null
  ended_at: string | null
  error: string | null
  stdout_bytes: number
  stderr_bytes: number
  stdin?: ExecStdin
  /** argv is longer: its first 512 bytes are told */
  argv_truncated: boolean
}

export type ListedExecution = {
  execution_id: string
  argv: string[] | null
  /** argv is longer: its first 512 bytes are told */
  argv_truncated: boolean
  cwd: string | null
  state: 'queued' | 'running' | 'succeeded' | 'failed' | 'lost'
  /** That it runs on */
  base_revision: number
  tree_revision: number | null
  exit_code: number | null
  term_signal: string | null
  timed_out: boolean
  error: {
    code: string
    message: string
    /** Whether the same command may succeed under another execution_id */
    retryable: boolean
    details: {
      reason: 'exec_failed_to_start' | 'start_failed' | 'layout_unsupported' | 'guest_feature_unavailable' | 'invalid_name' | 'disk_full' | 'too_many_changes' | 'tree_moved' | 'blob_missing' | 'blob_corrupt' | 'internal_error' | 'lease_expired' | 'host_unreachable' | 'host_restarted'
    }
  } | null
  created_at: string
  finished_at: string | null
}

export type ListedTerminal = {
  session_id: string
  argv: string[]
  cwd: string
  user: string
  pid: number | null
  cols: number
  rows: number
  state: 'running' | 'exited' | 'failed_to_start' | 'lost'
  exit_code: number | null
  term_signal: string | null
  started_at: string | null
  ended_at: string | null
  error: string | null
  output_bytes: number
  /** argv is longer: its first 512 bytes are told */
  argv_truncated: boolean
}

export type LoginRequest = {
  email: string
  password: string
  /** How the session is called in the list of sessions; absent: what the program says of itself */
  device?: string
}

export type Member = {
  person_id: string
  email: string
  display_name: string | null
  role: 'owner' | 'admin' | 'member' | 'billing'
  mfa_enabled: boolean
  /** Since when they are a member */
  created_at: string
}

export type MemberList = {
  data: Member[]
  next_cursor: string | null
}

export type MemberUpdate = {
  role: 'owner' | 'admin' | 'member' | 'billing'
}

export type NewName = {
  name: string
  /** Small letters, digits and hyphens; stays as it is. Absent: made of the name */
  slug?: string
}

export type OpenRequest = {
  /** Keys that start with sf: are reserved */
  key: string
  /** Slug; a new workspace uses the template's latest published version. slug@version: it uses this one, published and not archived */
  template: string
  caps?: Caps
  project_id?: string
  /** Names the agent session; `default` when absent */
  agent_label?: string
  /** Default: all that the principal may use. At least one: a token without any could call nothing, and `[]` is more often a slip */
  tools?: ('exec' | 'files' | 'pty' | 'process' | 'git' | 'browser')[]
  secrets?: string[]
  inputs?: Record<string, unknown>
  lifetime?: 'persistent' | 'session'
  /** adaptive, never or fixed:<60..604800> */
  idle_policy?: string
  /** For work in the background: for so long after its last use the machine of a new workspace is not parked though its processes use neither processor nor network. Never shorter than the cell waits with others; omitted: what the template says */
  background_seconds?: number
  mode?: 'processful' | 'file_first'
}

export type OpenResponse = {
  workspace: Workspace
  operation: Operation | null
  cell_endpoint: string | null
  tool_token: ToolToken | null
  /** What the call asked for and the workspace does not have. Of one that exists already nothing of it is applied; an open applies its inputs, a test instance and a draft keep theirs. Of a new one `caps` stands here where one is above the limit of template or plan: `workspace.ceilings` says what it has */
  ignored?: ('template' | 'base' | 'caps' | 'inputs' | 'idle_policy' | 'background_seconds')[]
}

export type Operation = {
  id: string
  kind: 'open' | 'suspend' | 'resume' | 'fork' | 'snapshot' | 'restore' | 'adopt' | 'delete' | 'reset' | 'layer_snapshot' | 'volume_create' | 'volume_delete' | 'volume_attach' | 'volume_detach' | 'template_build' | 'move'
  state: 'queued' | 'capacity_pending' | 'running' | 'succeeded' | 'failed' | 'canceled'
  state_reason: string | null
  workspace_id: string | null
  created_at: string
  updated_at: string
  started_at: string | null
  completed_at: string | null
  error: OperationError | null
  result: Record<string, unknown> | null
  /** What it was asked, such as reason, requested_at, after_seconds, source_workspace_id */
  input: Record<string, unknown>
  requested_by?: {
    kind: 'user' | 'api_key' | 'tool_token' | 'operator' | 'service'
    id: string | null
    name: string | null
  } | null
}

export type OperationAndWorkspace = {
  operation: Operation
  workspace: Workspace
}

export type OperationError = {
  code: 'capacity_unavailable' | 'invalid_resources' | 'startup_failed' | 'layout_unsupported' | 'dependency_failed' | 'checkpoint_failed' | 'checkpoint_corrupt' | 'checkpoint_incompatible' | 'interrupted' | 'canceled' | 'internal_error'
  message: string
  retryable: boolean
  /** While it waits for room: deadline_at. By code: reason, waited_seconds, required, host_class, … */
  details: Record<string, unknown>
}

export type OperationList = {
  data: Operation[]
  next_cursor: string | null
}

export type Organization = {
  id: string
  name: string
  slug: string
  role: ('owner' | 'admin' | 'member' | 'billing') | null
  created_at: string
}

export type OrganizationDelete = {
  confirm_slug: string
}

export type OrganizationList = {
  data: Organization[]
  next_cursor: string | null
}

export type OrganizationSecretCreate = {
  /** The environment variable that its value becomes; names that start with SERVICE_ are reserved */
  name: string
  description?: string | null
  /** Never returned. UTF-8 text of at most 65536 bytes, without NUL */
  value: string
  allowed_workspace_ids?: string[] | null
  /** What may be started with its value. It can be bound to a workspace only with both `exec` and `pty` among them */
  allowed_tools?: ('exec' | 'files' | 'pty' | 'process' | 'git' | 'browser')[]
  hosts?: {
    /** A name as egress policies have it; `*.` in front stands for one label */
    host: string
    /** Default: 443 */
    ports?: number[]
    /** The header that is the value */
    header?: string
    /** Authorization: Bearer, and the value */
    bearer?: true
    /** Authorization: Basic, of this user with the value as password */
    basic_user?: string
    /** The parameter of the query that is the value */
    query?: string
  }[] | null
  allowed_project_ids?: string[] | null
}

export type Origin = {
  kind: 'template_version'
  template_id: string
  version: number
} | {
  kind: 'draft_state'
  checkpoint_id: string
  /** Of the draft */
  state_id?: string
  /** Whose draft it was */
  template_id?: string
}

export type OverageRates = {
  cpu_hour_minor: number | null
  ram_gib_hour_minor: number | null
}

export type PasswordChangeRequest = {
  current_password: string
  /** Any characters but NUL. Composed and decomposed forms of a letter are the same */
  new_password: string
  /** Whether all other sessions of the person end too; absent: they go on */
  end_other_sessions?: boolean
}

export type PasswordResetRequest = {
  /** From the link of a mail: what stands behind `#token=` */
  token: string
  /** Any characters but NUL. Composed and decomposed forms of a letter are the same */
  new_password: string
}

export type PatchResult = {
  path: string
  revision: string
  /** null where the patch made the file; absent above 256 MiB */
  previous_revision?: string | null
  bytes_written: number
  /** The bytes and the name survive a power cut */
  durable: boolean
  replacements: number
  file: FileInfo
}

export type PaymentEventReceived = {
  received: true
}

export type PersonSession = {
  id: string
  device: string | null
  address: string | null
  created_at: string
  /** To the hour */
  last_used_at: string
  session_expires_at: string
  mfa_required: boolean
  /** It is the one that asks */
  is_current: boolean
}

export type PersonSessionList = {
  data: PersonSession[]
  next_cursor: string | null
}

export type Plan = {
  slug: string
  name: string
  currency: string | null
  price_minor: number | null
  overage_rates: {
    cpu_hour_minor: number | null
    ram_gib_hour_minor: number | null
  }
  entitlements: Entitlement[]
}

export type PlanList = {
  data: Plan[]
  next_cursor: string | null
}

export type Port = {
  workspace_id: string
  port: number
  /** The same for as long as the workspace is there */
  url: string
  callback: {
    created_at: string
  } | null
  /** That reached the workspace since the port was exposed; this and the next are seconds late */
  requests: number
  /** From visitors */
  received_bytes: number
  /** Back to visitors: outbound transfer */
  sent_bytes: number
  last_request_at: string | null
  created_at: string
}

export type PortCallback = {
  /** Shown once. What follows it is the path in the app */
  url: string
  workspace_id: string
  port: number
  created_at: string
}

export type PortLink = {
  /** Shown once. Whoever opens it is let in until it expires */
  url: string
  path: string
  workspace_id: string
  port: number
  created_at: string
  expires_at: string
}

export type PortList = {
  data: Port[]
  next_cursor: string | null
}

export type PortToken = {
  /** Shown once. Sent as `Authorization: Bearer sfp_…` or as `X-Service-Token: sfp_…` */
  token: string
  token_type: 'Bearer'
  /** Of the port */
  url: string
  workspace_id: string
  port: number
  created_at: string
  expires_at: string
}

export type Principal = {
  type: 'user' | 'api_key'
  user: {
    id: string
    email: string
    email_verified: boolean
    display_name: string | null
    mfa_enabled: boolean
  } | null
  memberships: {
    organization_id: string
    organization_name: string
    organization_slug: string
    role: 'owner' | 'admin' | 'member' | 'billing'
  }[]
  api_key: {
    id: string
    key_id: string
    organization_id: string
    project_id: string
    tool_permissions: ('exec' | 'files' | 'pty' | 'process' | 'git' | 'browser')[]
  } | null
}

export type Process = {
  pid: number
  /** 0: started by the service */
  ppid: number
  /** Decimal uid where the workspace has no name for it */
  user: string
  name: string
  /** argv, of which the first 4096 bytes are told; what is not UTF-8 is U+FFFD; empty for a zombie */
  command: string[]
  command_truncated: boolean
  state: 'running' | 'sleeping' | 'waiting' | 'stopped' | 'traced' | 'zombie' | 'dead' | 'unknown'
  threads: number
  /** User and system time together */
  cpu_ms: number
  /** Resident */
  memory_bytes: number
  started_at: string
  session_id: string | null
}

export type ProcessList = {
  processes: Process[]
  truncated: boolean
}

export type Project = {
  id: string
  organization_id: string
  name: string
  slug: string
  created_at: string
}

export type ProjectEgressPolicy = {
  project_id: string
  /** allow_all: all that is public. allowlist: what rules and cidrs name, and nothing without them. deny_all: nothing */
  mode: 'allow_all' | 'allowlist' | 'deny_all'
  /** A set, as cidrs and ports are: their order means nothing, and may be another in each answer */
  rules: EgressRule[]
  cidrs: string[]
  /** Of the project; 0: nobody has set a policy. The value of If-Match, and the ETag */
  version: number
  updated_at: string | null
}

export type ProjectList = {
  data: Project[]
  next_cursor: string | null
}

export type Recipe = {
  /** slug@version of the organization or of the platform; slug: its latest version; upload: with the id of an upload: the root file system that it holds, as a tar or as a tar of an OCI image layout */
  base?: string
  architecture?: 'amd64' | 'arm64'
  /** Installed at first, by apt */
  packages?: string[]
  languages?: {
    name: string
    version?: string
  }[]
  /** Written before the steps */
  files?: RecipeFile[]
  /** One after the other */
  steps?: (RunStep | CopyStep)[]
  egress?: BuildEgress
  /** Environment of every command */
  env?: Record<string, string>
  inputs?: Record<string, TemplateInput>
  start?: StartCommand[]
  services?: Service[]
  /** A machine is started up ahead without network, inputs and secrets, and saved; an open that gives nothing its start-up needs restores it */
  warm?: boolean
  /** Of an open that does not say otherwise; what is absent is the base's */
  defaults?: {
    cpu_millis?: number
    memory_mib?: number
    disk_gib?: number
    lifetime?: 'persistent' | 'session'
    idle_policy?: string
    session_idle_seconds?: number
    /** For so long a machine that is unused and quiet is not parked, where that is longer than in its cell */
    background_seconds?: number
  }
  ceiling?: {
    cpu_millis?: number
    memory_mib?: number
    disk_gib?: number
  }
}

export type RecipeFile = {
  /** Absolute */
  path: string
  content?: string
  /** Instead of content */
  content_base64?: string
  /** root when absent */
  user?: string
  /** In octal digits */
  mode?: string
}

export type RecoveryCodes = {
  /** Those before are good no more */
  recovery_codes: string[]
}

export type RecoveryCodesLeft = {
  left: number
}

export type RegisterRequest = {
  email: string
  /** Any characters but NUL. Composed and decomposed forms of a letter are the same */
  password: string
  display_name?: string
  /** From the link of a mail: what stands behind `#token=` */
  invitation_token?: string
}

export type Rename = {
  name: string
}

export type ResetRequest = {
  /** Must be true: every change is wiped */
  confirm_destructive?: boolean
}

export type Residency = {
  state: ('resident' | 'frozen' | 'hibernated' | 'restoring') | null
  reason: ('operation' | 'use' | 'keepalive' | 'wake_hint' | 'command' | 'busy' | 'recent' | 'never_parked') | null
  park_after_seconds: number | null
  /** Who says so: the background_seconds of the workspace, those of its template, or the cell */
  park_after_by: 'workspace' | 'template' | 'cell'
  park_at: string | null
}

export type Resources = {
  cpu_millis: number
  memory_mib: number
  disk_gib: number
}

export type RestoreRequest = {
  /** A checkpoint of this workspace */
  checkpoint_id: string
  /** false: only its disk is put back, and the workspace starts from it as after a loss of power. The checkpoint keeps its memory. With it a hibernated workspace may also name the checkpoint that a failed wake names. Default true */
  memory?: boolean
}

export type RotatedSession = {
  /** `sfu_` and 43 characters. Shown this once; the one before it is revoked */
  session_token: string
  /** 30 days from now, or 90 days from the sign-in, whichever is earlier */
  session_expires_at: string
}

export type RunStep = {
  run: string | string[]
  /** root when absent */
  user?: string
  /** It is made where it is not there */
  cwd?: string
  /** Environment of every command */
  env?: Record<string, string>
  timeout_seconds?: number
}

export type SaveAsTemplateRequest = {
  template_slug: string
  display_name?: string
  /** Of the workspace: what it holds is saved, and the workspace need not run */
  checkpoint_id?: string
  defaults?: TemplateDefaults
  /** Workspaces are opened with the version as soon as it is there */
  auto_publish?: boolean
  /** Absolute paths of files that may hold what looks like a secret; at most 200 */
  acknowledged_scan_findings?: string[]
  settings?: TemplateSettingsInput
  description?: string
}

export type SaveAsTemplateResponse = {
  operation: Operation | null
  build: TemplateBuild
}

export type ScanFinding = {
  /** Absolute */
  path: string
  /** What it looks like */
  rule: string
  /** The first one that it was found on */
  line: number
}

export type SearchMatch = {
  path: string
  line: number
  /** Byte of the line, from 1 */
  column: number
  /** Cut to 1,000 bytes; bytes that are not UTF-8 are shown as U+FFFD */
  text: string
  before: string[]
  after: string[]
}

export type SearchResult = {
  /** By path and line; one a line */
  matches: SearchMatch[]
  truncated: boolean
  stop_reason: ('max_matches' | 'time_limit' | 'byte_limit' | 'entry_limit' | 'answer_limit' | 'depth_limit') | null
  files_scanned: number
  next_cursor: string | null
}

export type Secret = {
  id: string
  organization_id: string
  project_id: string | null
  name: string
  description: string | null
  allowed_project_ids: string[] | null
  allowed_workspace_ids: string[] | null
  allowed_tools: ('exec' | 'files' | 'pty' | 'process' | 'git' | 'browser')[]
  hosts: {
    /** A name as egress policies have it; `*.` in front stands for one label */
    host: string
    /** Default: 443 */
    ports?: number[]
    /** The header that is the value */
    header?: string
    /** Authorization: Bearer, and the value */
    bearer?: true
    /** Authorization: Basic, of this user with the value as password */
    basic_user?: string
    /** The parameter of the query that is the value */
    query?: string
  }[] | null
  /** The newest, which is used from the next start on */
  version: number
  created_at: string
  updated_at: string
  deleted_at: string | null
}

export type SecretCreate = {
  /** The environment variable that its value becomes; names that start with SERVICE_ are reserved */
  name: string
  description?: string | null
  /** Never returned. UTF-8 text of at most 65536 bytes, without NUL */
  value: string
  allowed_workspace_ids?: string[] | null
  /** What may be started with its value. It can be bound to a workspace only with both `exec` and `pty` among them */
  allowed_tools?: ('exec' | 'files' | 'pty' | 'process' | 'git' | 'browser')[]
  hosts?: {
    /** A name as egress policies have it; `*.` in front stands for one label */
    host: string
    /** Default: 443 */
    ports?: number[]
    /** The header that is the value */
    header?: string
    /** Authorization: Bearer, and the value */
    bearer?: true
    /** Authorization: Basic, of this user with the value as password */
    basic_user?: string
    /** The parameter of the query that is the value */
    query?: string
  }[] | null
}

export type SecretList = {
  data: Secret[]
  next_cursor: string | null
}

export type SecretUpdate = {
  description?: string | null
  allowed_project_ids?: string[] | null
  allowed_workspace_ids?: string[] | null
  /** What may be started with its value. It can be bound to a workspace only with both `exec` and `pty` among them */
  allowed_tools?: ('exec' | 'files' | 'pty' | 'process' | 'git' | 'browser')[]
  hosts?: {
    /** A name as egress policies have it; `*.` in front stands for one label */
    host: string
    /** Default: 443 */
    ports?: number[]
    /** The header that is the value */
    header?: string
    /** Authorization: Bearer, and the value */
    bearer?: true
    /** Authorization: Basic, of this user with the value as password */
    basic_user?: string
    /** The parameter of the query that is the value */
    query?: string
  }[] | null
}

export type SecretVersion = {
  id: string
  secret_id: string
  version: number
  created_at: string
  erased_at: string | null
}

export type SecretVersionCreate = {
  /** Never returned. UTF-8 text of at most 65536 bytes, without NUL */
  value: string
}

export type SecretVersionList = {
  data: SecretVersion[]
  next_cursor: string | null
}

export type Service = {
  /** Unique among the commands and services of the version */
  name: string
  argv: string[]
  /** /home/user when absent */
  cwd?: string
  /** user when absent */
  user?: string
  env?: Record<string, string>
  /** When it has ended */
  restart?: 'always' | 'on_failure' | 'never'
  ready?: {
    /** It accepts connections on the loopback */
    port: number
  } | {
    argv: string[]
  }
  ready_timeout_seconds?: number
}

export type SignedIn = {
  /** `sfu_` and 43 characters. Shown this once; the one before it is revoked */
  session_token: string
  /** 30 days from now, or 90 days from the sign-in, whichever is earlier */
  session_expires_at: string
  /** The session waits for POST /v1/auth/mfa/challenge and is good for nothing else */
  mfa_required: boolean
  /** Until it is, every other route answers `email_unverified` */
  email_verified: boolean
}

export type SignedInWithCodes = {
  /** `sfu_` and 43 characters. Shown this once; the one before it is revoked */
  session_token: string
  /** 30 days from now, or 90 days from the sign-in, whichever is earlier */
  session_expires_at: string
  /** Each signs in once in the place of a code. Shown this once */
  recovery_codes: string[]
}

export type SnapshotRequest = {
  /** For people */
  label?: string
}

export type Spend = {
  organization_id: string
  period: {
    starts_at: string
    /** Its end, which is the beginning of the next */
    ends_at: string
  }
  spend_cap: SpendCap
}

export type SpendAlerts = {
  organization_id: string
  /** Percent of the spend cap and of each allowance, of which people are told once in a billing period */
  thresholds_percent: number[]
  period: {
    starts_at: string
    /** Its end, which is the beginning of the next */
    ends_at: string
  }
  /** In this billing period, the last first */
  reached: {
    subject: 'cpu_hours' | 'ram_gib_hours' | 'spend_cap'
    threshold_percent: number
    reached_at: string
    mailed_at: string | null
  }[]
}

export type SpendAlertsRequest = {
  /** Percent of the spend cap and of each allowance, of which people are told once in a billing period */
  thresholds_percent: number[]
}

export type SpendCap = {
  state: 'unavailable' | 'off' | 'paused' | 'within_allowance' | 'accruing' | 'warning' | 'reached'
  cap_minor: number | null
  effective_cap_minor: number | null
  max_cap_minor: number | null
  charges_minor: number
  remaining_minor: number | null
  percent_of_cap: number | null
  lines: {
    allowance: 'cpu_hours' | 'ram_gib_hours'
    units_over: number
    billed_units: number
    rate_minor: number
    amount_minor: number
  }[]
  projected_reached_at: string | null
  currency: string | null
}

export type SpendPolicy = {
  organization_id: string
  /** The plan has a price, and a rate for every allowance that ends */
  overage_available: boolean
  overage_enabled: boolean
  /** paused: a payment of the plan is past due */
  overage_state: 'unavailable' | 'off' | 'on' | 'paused'
  spend_cap_minor: number | null
  spend_cap_min_minor: number | null
  spend_cap_max_minor: number | null
  rates: OverageRates
  currency: string | null
  /** Of the cap and of each allowance; `spend-alerts` changes them */
  alert_thresholds_percent: number[]
  /** What to send as If-Match; 0: nobody has decided */
  version: number
  updated_at: string | null
}

export type StartCommand = {
  /** Unique among the commands and services of the version */
  name: string
  argv: string[]
  /** /home/user when absent */
  cwd?: string
  /** user when absent */
  user?: string
  env?: Record<string, string>
  timeout_seconds?: number
}

export type Startup = {
  state: 'pending' | 'running' | 'ready' | 'failed'
  /** The start command or service that failed; while running the one that is waited for */
  step?: string
  /** failed: why */
  reason?: 'startup_failed' | 'service_not_ready' | 'secrets_unavailable' | 'secret_not_available' | 'guest_feature_unavailable'
  exit_code?: number | null
  /** failed: the end of what it wrote */
  output_tail?: string
}

export type StepUpRequest = {
  password: string
}

export type Subscription = {
  organization_id: string
  plan: Plan
  state: 'active' | 'past_due' | 'unpaid' | 'on_hold' | 'none'
  refuses_starts: ('no_plan' | 'limits_missing' | 'not_included' | 'payment_past_due' | 'unpaid' | 'operator_hold') | null
  grace_until: string | null
  current_period: {
    starts_at: string
    /** Its end, which is the beginning of the next */
    ends_at: string
  }
  /** manual: an operator says what is paid; stripe: the plan was bought, and that service collects */
  payment: 'manual' | 'stripe'
}

export type SuspendRequest = {
  requested_at: string
  after_seconds: number
  /** The suspend takes effect at this moment at the earliest */
  not_before: string
}

export type SuspendWhenIdleResponse = {
  workspace: Workspace
  operation: Operation | null
  suspend_request: SuspendRequest | null
}

export type TarResult = {
  path: string
  /** That the tar has */
  entries: number
  /** Of the files in it, with their holes */
  bytes: number
  /** The files and their names survive a power cut */
  durable: boolean
}

export type Template = {
  id: string
  slug: string
  organization_id: string | null
  display_name: string | null
  description: string | null
  latest_version: number | null
  created_at: string
  archived_at: string | null
}

export type TemplateBuild = {
  id: string
  kind: 'save_as_template' | 'draft' | 'recipe'
  /** Of its operation */
  state: 'queued' | 'capacity_pending' | 'running' | 'succeeded' | 'failed' | 'canceled'
  state_reason: string | null
  operation_id: string
  organization_id: string
  project_id: string
  template_slug: string
  version: number | null
  /** Whether workspaces are opened with that version */
  published: boolean
  /** What looks like a secret and was not acknowledged: it keeps the version from being published by itself */
  scan_findings: ScanFinding[]
  error: OperationError | null
  created_at: string
  started_at: string | null
  completed_at: string | null
}

export type TemplateBuildLog = {
  /** Of the first byte of text */
  offset: number
  /** Where to go on */
  next_offset: number
  text: string
  /** Nothing comes after it */
  complete: boolean
}

export type TemplateBuildRequest = {
  recipe?: Recipe
  /** Instead of a recipe */
  dockerfile?: string
  build_args?: Record<string, string>
  /** The tar that copy and COPY take files from */
  upload_id?: string
  egress_ceiling?: EgressPolicyRequest
  /** Of the version */
  description?: string
  /** Workspaces are opened with the version as soon as it is there */
  auto_publish?: boolean
  /** A person says it; a key has its own */
  project_id?: string
}

export type TemplateBuildStarted = {
  operation: Operation
  build: TemplateBuild
}

export type TemplateDefaults = {
  cpu_millis?: number
  memory_mib?: number
  disk_gib?: number
  lifetime?: 'persistent' | 'session'
  idle_policy?: string
  session_idle_seconds?: number
  /** For so long a machine that is unused and quiet is not parked, where that is longer than in its cell */
  background_seconds?: number
}

export type TemplateDraft = {
  id: string
  template_id: string
  template_slug: string
  organization_id: string
  project_id: string
  /** Where it is worked on, with all that a workspace has */
  workspace_id: string
  /** The version that it was opened from */
  base: {
    slug: string
    version: number
  }
  draft_base_version: number | null
  latest_version: number | null
  /** Somebody else has published a newer version: a publish is refused with draft_stale */
  stale: boolean
  created_at: string
  discarded_at: string | null
}

export type TemplateDraftRequest = {
  /** slug@version; omitted: the latest published version of the template */
  base?: string
  project_id?: string
  /** Of a template that is made with it */
  display_name?: string
  caps?: Caps
  /** Names the agent session; `default` when absent */
  agent_label?: string
  /** Default: all that the principal may use. At least one: a token without any could call nothing, and `[]` is more often a slip */
  tools?: ('exec' | 'files' | 'pty' | 'process' | 'git' | 'browser')[]
  inputs?: Record<string, unknown>
}

export type TemplateDraftStarted = {
  draft: TemplateDraft
  workspace: Workspace
  operation: Operation | null
  cell_endpoint: string | null
  tool_token: ToolToken | null
  /** What the call asked for and the workspace does not have. Of one that exists already nothing of it is applied; an open applies its inputs, a test instance and a draft keep theirs. Of a new one `caps` stands here where one is above the limit of template or plan: `workspace.ceilings` says what it has */
  ignored?: ('template' | 'base' | 'caps' | 'inputs' | 'idle_policy' | 'background_seconds')[]
}

export type TemplateFile = {
  /** Bytes that are not UTF-8 are shown escaped (`\xff`); a path with such a name cannot be asked for */
  path: string
  /** Bytes that are not UTF-8 are shown escaped (`\xff`); a path with such a name cannot be asked for */
  name: string
  type: 'file' | 'directory' | 'symlink' | 'other'
  size_bytes: number
  /** Octal */
  mode: string
  uid: number
  gid: number
  sha256: string | null
  target: string | null
}

export type TemplateFileChange = {
  /** Bytes that are not UTF-8 are shown escaped (`\xff`); a path with such a name cannot be asked for */
  path: string
  change: 'added' | 'modified' | 'deleted'
  before: TemplateFile | null
  after: TemplateFile | null
}

export type TemplateFileChangeList = {
  data: TemplateFileChange[]
  next_cursor: string | null
}

export type TemplateFileList = {
  data: TemplateFile[]
  next_cursor: string | null
}

export type TemplateInput = {
  /** secret: the secret of this name is bound to each workspace that may use it; an open says no value of it */
  kind?: 'text' | 'secret'
  /** An open without it is refused with input_required */
  required?: boolean
  default?: string
  /** false: start commands and services do not need it, and a warm machine may be without */
  startup?: boolean
  description?: string
}

export type TemplateLanguage = {
  name: string
  versions: string[]
  default_version: string
}

export type TemplateLanguageList = {
  data: TemplateLanguage[]
  next_cursor: string | null
}

export type TemplateList = {
  data: Template[]
  next_cursor: string | null
}

export type TemplatePackage = {
  name: string
  /** That a build would install */
  version: string
  description: string
  /** Without what it depends on */
  installed_bytes: number
}

export type TemplatePackageList = {
  data: TemplatePackage[]
  next_cursor: string | null
}

export type TemplateSettings = {
  /** Environment of every command */
  env: Record<string, string>
  inputs: Record<string, TemplateInput>
  /** For an open that does not say otherwise */
  defaults: {
    cpu_millis: number
    memory_mib: number
    disk_gib: number
    lifetime?: 'persistent' | 'session'
    idle_policy?: string
    session_idle_seconds?: number
    /** For so long a machine that is unused and quiet is not parked, where that is longer than in its cell */
    background_seconds?: number
  }
  /** No open gets more */
  ceiling: {
    cpu_millis: number
    memory_mib: number
    disk_gib: number
  }
  start?: StartCommand[]
  services?: Service[]
  /** A machine is started up ahead without network, inputs and secrets, and saved; an open that gives nothing its start-up needs restores it */
  warm?: boolean
  /** What its files serve beyond commands and files */
  guest_features?: 'browser'[]
}

export type TemplateSettingsInput = {
  /** Environment of every command */
  env?: Record<string, string>
  inputs?: Record<string, TemplateInput>
  start?: StartCommand[]
  services?: Service[]
  /** A machine is started up ahead without network, inputs and secrets, and saved; an open that gives nothing its start-up needs restores it */
  warm?: boolean
  /** What its files serve beyond commands and files */
  guest_features?: 'browser'[]
  /** No open gets more */
  ceiling?: {
    cpu_millis: number
    memory_mib: number
    disk_gib: number
  }
  defaults?: TemplateDefaults
  /** manual: workspaces keep the version that they were made from */
  update_policy?: 'manual' | 'automatic'
}

export type TemplateUpload = {
  id: string
  organization_id: string
  project_id: string
  size_bytes: number
  sha256: string
  /** Where the next part begins */
  received_bytes: number
  /** complete: all of it is there, and has the digest */
  state: 'receiving' | 'complete'
  created_at: string
  /** It is gone then, where nothing is received or built with it before */
  expires_at: string
}

export type TemplateUploadRequest = {
  /** At most 5368709120 */
  size_bytes: number
  /** Of all of it, in hex */
  sha256: string
  project_id?: string
}

export type TemplateVersion = {
  id: string
  template_id: string
  slug: string
  organization_id: string | null
  version: number
  /** Of the workspaces that are made from it */
  disk_layout: 'legacy' | 'layered'
  /** SHA-256 of each file system image, the lowest first */
  layers: string[]
  settings: TemplateSettings
  egress: EgressRules | null
  description: string | null
  /** What looked like a secret when it was made, and was not acknowledged */
  scan_findings: ScanFinding[]
  warm?: WarmVersion
  created_at: string
  published_at: string | null
  archived_at: string | null
}

export type TemplateVersionList = {
  data: TemplateVersion[]
  next_cursor: string | null
}

export type TerminalInput = {
  /** base64 of at most 65536 bytes */
  data: string
}

export type TerminalList = {
  data: ListedTerminal[]
  next_cursor: string | null
}

export type TerminalSession = {
  session_id: string
  argv: string[]
  cwd: string
  user: string
  pid: number | null
  cols: number
  rows: number
  state: 'running' | 'exited' | 'failed_to_start' | 'lost'
  exit_code: number | null
  term_signal: string | null
  started_at: string | null
  ended_at: string | null
  error: string | null
  output_bytes: number
  output_available_from: number
}

export type TerminalSize = {
  cols: number
  rows: number
}

export type TerminalStart = {
  session_id?: string
  /** The user's login shell when absent */
  argv?: string[]
  /** Absolute path, /home/user when absent */
  cwd?: string
  env?: Record<string, string>
  user?: string
  cols?: number
  rows?: number
  secret_refs?: string[]
}

export type TestInstanceRequest = {
  /** Keys that start with sf: are reserved */
  key?: string
  caps?: Caps
  /** Names the agent session; `default` when absent */
  agent_label?: string
  /** Default: all that the principal may use. At least one: a token without any could call nothing, and `[]` is more often a slip */
  tools?: ('exec' | 'files' | 'pty' | 'process' | 'git' | 'browser')[]
  inputs?: Record<string, unknown>
  project_id?: string
}

export type ToolToken = {
  token: string
  token_type: 'Bearer'
  issued_at: string
  expires_at: string
  workspace_id: string
  agent_session_id: string
  ownership_epoch: number
  tools: ('exec' | 'files' | 'pty' | 'process' | 'git' | 'browser')[]
  audience: string
  kid: string
  cell_endpoint: string
}

export type ToolTokenKeys = {
  keys: {
    kty: 'EC'
    crv: 'P-256'
    x: string
    y: string
    kid: string
    alg: 'ES256'
    use: 'sig'
  }[]
}

export type TotpStarted = {
  /** Base32, for an authenticator without a camera */
  secret: string
  /** For a QR code */
  otpauth_url: string
}

export type TreeRestored = {
  /** The new revision, which is now the current one */
  tree_revision: number
  /** Whose files it has */
  restored_revision: number
}

export type TreeRevision = {
  tree_revision: number
  created_at: string | null
  entries: number | null
  bytes: number | null
  changes: ChangeCounts | null
  made_by: {
    call: string | null
    execution_id: string | null
  } | null
}

export type TreeRevisions = {
  /** The current one first. `changes` counts against the revision before; null: nobody counted */
  data: TreeRevision[]
  next_cursor: string | null
}

export type UsageAllowance = {
  allowance: 'cpu_hours' | 'ram_gib_hours'
  meter: 'cpu_seconds' | 'memory_gib_seconds'
  unit: 'hours' | 'gib_hours'
  /** overage: used up, and what is beyond is charged */
  state: 'unlimited' | 'within' | 'overage' | 'exhausted'
  /** In its unit */
  used: number
  included: number | null
  used_meter_units: number
  included_meter_units: number | null
  /** Of these, what credits add: drawn in the period, or still to be drawn */
  granted_meter_units: number
}

export type UsageEstimate = {
  organization_id: string
  period: {
    starts_at: string
    /** Its end, which is the beginning of the next */
    ends_at: string
  }
  /** The rest of the period is taken to be as what is over of it */
  basis: 'average_so_far'
  allowances: {
    allowance: 'cpu_hours' | 'ram_gib_hours'
    used_meter_units: number
    /** At the end of the period */
    estimated_meter_units: number
    /** Of these, what the workspace that was asked about adds */
    workspace_meter_units: number
    included_meter_units: number | null
    /** Of these, what credits add */
    granted_meter_units: number
  }[]
  price_minor: number | null
  /** Beyond the price of the plan, as far as the cap lets it come; 0 where overage is off */
  overage_minor: number
  total_minor: number | null
  currency: string | null
}

export type UsageGrant = {
  id: string
  organization_id: string
  allowance: 'cpu_hours' | 'ram_gib_hours'
  state: 'active' | 'used_up' | 'expired' | 'revoked'
  /** In units of the allowance */
  granted: number
  granted_meter_units: number
  /** Taken for what was used beyond what the plan includes, in all billing periods */
  drawn_meter_units: number
  /** What can still be drawn; 0 of one whose time is over */
  remaining_meter_units: number
  note: string
  created_at: string
  expires_at: string | null
}

export type UsageGrantList = {
  data: UsageGrant[]
  next_cursor: string | null
}

export type UsageMeasurement = {
  measured_through: string | null
  /** Hours that ended by then are entries of the ledger; later ones may still grow */
  final_through: string
}

export type UsageSeries = {
  /** Beginning of the first hour or day */
  from: string
  /** Beginning of the last hour or day, which is part of the series */
  to: string
  granularity: 'hour' | 'day'
  series: {
    meter: 'cpu_seconds' | 'memory_gib_seconds' | 'storage_gib_seconds' | 'egress_bytes' | 'ingress_bytes' | 'volume_storage_gib_seconds'
    /** One for each hour or day, the oldest first; 0 where nothing was used */
    points: {
      /** Beginning of the hour or day */
      at: string
      units: number
    }[]
    total: number
  }[]
  /** The same totals by meter */
  totals: {
    cpu_seconds?: number
    memory_gib_seconds?: number
    storage_gib_seconds?: number
    egress_bytes?: number
    ingress_bytes?: number
    volume_storage_gib_seconds?: number
  }
  measurement: UsageMeasurement
}

export type UsageSummary = {
  organization_id: string
  period: {
    starts_at: string
    /** Its end, which is the beginning of the next */
    ends_at: string
  }
  usage: UsageUnits
  allowances: UsageAllowance[]
  /** Opens, resumes and forks are refused with 402 allowance_exhausted */
  allowance_exhausted: boolean
  exhausted_reason: ('allowance_used' | 'overage_paused' | 'spend_cap_reached') | null
  spend_cap: SpendCap
  measurement: UsageMeasurement
}

export type UsageUnits = {
  cpu_seconds: number
  memory_gib_seconds: number
  storage_gib_seconds: number
  egress_bytes: number
  ingress_bytes: number
  volume_storage_gib_seconds: number
}

export type Volume = {
  id: string
  organization_id: string
  /** The project that it belongs to */
  project_id: string
  name: string
  /** What it may hold, the file system's own records among it */
  quota_gib: number
  /** Workspaces of every project of the organization can have it */
  org_shared: boolean
  state: 'creating' | 'available' | 'deleting' | 'deleted' | 'failed'
  /** Those to workspaces that you may know of */
  attachments: VolumeAttachment[]
  created_at: string
  updated_at: string
  deleted_at: string | null
}

export type VolumeAndOperation = {
  volume: Volume
  operation: Operation
}

export type VolumeAttachRequest = {
  volume_id: string
  /** Where the workspace sees it: an absolute path without links, . and .., which is made where it is missing */
  mount_path: string
  /** Default read_write */
  mode?: 'read_write' | 'read_only'
}

export type VolumeAttachment = {
  volume_id: string
  workspace_id: string
  mount_path: string
  mode: 'read_write' | 'read_only'
  /** attached: the workspace has it, or has it as soon as it runs */
  state: 'attaching' | 'attached' | 'detaching'
  created_at: string
  updated_at: string
}

export type VolumeAttachmentAndOperation = {
  attachment: VolumeAttachment
  operation: Operation
}

export type VolumeAttachmentList = {
  data: VolumeAttachment[]
  next_cursor: string | null
}

export type VolumeCreateRequest = {
  /** No other volume of the project has it, but those that are deleted */
  name: string
  quota_gib: number
  /** Only owners and admins may say true. Default false */
  org_shared?: boolean
}

export type VolumeList = {
  data: Volume[]
  next_cursor: string | null
}

export type WakeHint = {
  residency: 'resident' | 'frozen' | 'hibernated' | 'restoring'
}

export type WarmVersion = {
  /** none: the next open has one made. failed: opens are cold, and an hour later it is tried again */
  state: 'none' | 'making' | 'ready' | 'failed'
  error: {
    step: string | null
    reason: 'startup_failed' | 'service_not_ready' | 'secrets_unavailable' | 'secret_not_available' | 'guest_feature_unavailable' | 'timed_out' | 'no_answer' | 'machine_failed'
    exit_code: number | null
    output_tail: string
  } | null
}

export type Workspace = {
  id: string
  organization_id: string
  project_id: string
  /** The caller's own name of it, unique in the organization */
  key: string
  /** What it is */
  observed_state: 'creating' | 'starting' | 'running' | 'suspending' | 'suspended' | 'resuming' | 'forking' | 'stopping' | 'failed' | 'deleting' | 'deleted'
  /** What it was last asked to be */
  desired_state: 'running' | 'suspended' | 'deleted'
  /** Observed and desired state are running, start-up is ready where there is one, and the operation that started it has ended */
  ready: boolean
  /** The version that it was made from; a reopen does not change it */
  template: {
    slug: string
    version: number
  }
  active_operation: Operation | null
  pending_reason: string | null
  grants: Resources | null
  ceilings: Resources
  caps: Caps
  /** session: discarded when it is closed or has been idle; never changes */
  lifetime: 'persistent' | 'session'
  purpose: 'standard' | 'template_draft' | 'template_test'
  /** layered: its changes lie above the template's files and can be wiped by a reset */
  disk_layout: 'legacy' | 'layered'
  origin: Origin | null
  idle_timeout_seconds: number | null
  ended_reason: string | null
  startup: Startup | null
  /** never changes */
  mode: 'processful' | 'file_first'
  tree_revision: number | null
  /** Rises with every suspend, start, resume and move; tool tokens carry it */
  ownership_epoch: number
  cell_endpoint: string | null
  idle: Idle
  created_at: string
  updated_at: string
  deleted_at: string | null
}

export type WorkspaceEgressPolicy = {
  workspace_id: string
  /** allow_all: all that is public. allowlist: what rules and cidrs name, and nothing without them. deny_all: nothing */
  mode: 'allow_all' | 'allowlist' | 'deny_all'
  /** A set, as cidrs and ports are: their order means nothing, and may be another in each answer */
  rules: EgressRule[]
  cidrs: string[]
  /** Whose policy it is: the workspace's own override, its project's, or the platform's */
  source: 'workspace' | 'project' | 'platform'
  /** Of the workspace's overrides, the clearing of one counted; 0: there never was one. The value of If-Match, and the ETag */
  version: number
  /** Of its project's policy */
  project_version: number
  template_egress: EgressRules | null
  effective_policy: EgressRules
  enforcement: {
    /** not_enforced: it has no machine, or its host has not acknowledged any policy of this ownership epoch. pending: the host enforces an earlier policy of this epoch. failed: the host could not put the policy in force, and lets nothing more out than before */
    state: 'not_enforced' | 'pending' | 'enforced' | 'failed'
    acknowledged_at: string | null
  }
  updated_at: string | null
}

export type WorkspaceInputs = Record<string, string>

export type WorkspaceList = {
  data: Workspace[]
  next_cursor: string | null
}

export type WorkspaceOnly = {
  workspace: Workspace
}

export type WorkspaceSecrets = {
  secrets: {
    name: string
    /** deleted: the template version requires a secret of this name, and there is none any more */
    status: 'available' | 'not_allowed' | 'deleted'
  }[]
}

export type WorkspaceSecretsRequest = {
  names: string[]
}

export type WriteResult = {
  path: string
  bytes_written: number
  sha256: string
  /** The bytes and the name survive a power cut */
  durable: boolean
  revision?: string
}

/** Codes of refusals. */
export type ErrorCode = 'bad_request' | 'token_invalid' | 'unauthenticated' | 'invalid_credentials' | 'entitlement_required' | 'allowance_exhausted' | 'quota_exceeded' | 'forbidden' | 'mfa_required' | 'email_unverified' | 'step_up_required' | 'not_found' | 'conflict' | 'payload_too_large' | 'unsupported_media_type' | 'validation_failed' | 'idempotency_mismatch' | 'rate_limited' | 'internal_error' | 'dependency_unavailable' | 'stale_epoch' | 'workspace_not_running' | 'workspace_busy' | 'range_not_satisfiable' | 'service_unavailable' | 'timeout'
