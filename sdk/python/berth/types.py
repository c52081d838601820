"""What the API says, by field. Made by `npm run openapi` from the contract. Do not change it by hand.

For editors and type checkers: the SDK itself does not load it. An answer may have further fields, and further words where a
type lists some: treat what you do not know as something new.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, Union

if TYPE_CHECKING:
    from typing_extensions import NotRequired


class Accepted(TypedDict):
    #: If the address is what the call is about, a mail is on its way
    status: Literal["accepted"]


class AccountDelete(TypedDict):
    confirm_email: str


class AdoptRequest(TypedDict):
    #: A relative of this workspace: both go back to one workspace by forks, over any number of them and in either direction
    fork_workspace_id: str
    #: true: it is deleted once the adoption has succeeded, and its key can be used again. Default false
    delete_fork: NotRequired[bool]


class AgentSessionPrincipal(TypedDict):
    type: Literal["user", "api_key"]
    id: str


class AgentSession(TypedDict):
    id: str
    workspace_id: str
    agent_label: str
    principal: AgentSessionPrincipal
    created_at: str
    last_used_at: str


class AgentSessionList(TypedDict):
    data: list[AgentSession]
    next_cursor: Union[str, None]


class ApiKey(TypedDict):
    id: str
    #: The public part: `sfk_<key_id>_…`
    key_id: str
    organization_id: str
    project_id: str
    name: str
    tool_permissions: list[Literal["exec", "files", "pty", "process", "git", "browser"]]
    created_at: str
    expires_at: Union[str, None]
    revoked_at: Union[str, None]
    last_used_at: Union[str, None]


class ApiKeyCreate(TypedDict):
    name: NotRequired[str]
    #: What its tool tokens may do
    tool_permissions: list[Literal["exec", "files", "pty", "process", "git", "browser"]]
    expires_at: NotRequired[Union[str, None]]


class ApiKeyCreated(TypedDict):
    id: str
    #: The public part: `sfk_<key_id>_…`
    key_id: str
    organization_id: str
    project_id: str
    name: str
    tool_permissions: list[Literal["exec", "files", "pty", "process", "git", "browser"]]
    created_at: str
    expires_at: Union[str, None]
    revoked_at: Union[str, None]
    last_used_at: Union[str, None]
    #: The whole key. Shown this once
    api_key: str


class ApiKeyList(TypedDict):
    data: list[ApiKey]
    next_cursor: Union[str, None]


class ApiKeyUpdate(TypedDict):
    name: NotRequired[str]
    #: What its tool tokens may do
    tool_permissions: NotRequired[list[Literal["exec", "files", "pty", "process", "git", "browser"]]]
    expires_at: NotRequired[Union[str, None]]


class AuditEventActor(TypedDict):
    kind: Literal["user", "api_key", "tool_token", "operator", "service"]
    id: Union[str, None]
    name: Union[str, None]


class AuditEventSubject(TypedDict):
    kind: str
    id: str


class AuditEvent(TypedDict):
    id: str
    created_at: str
    organization_id: str
    project_id: Union[str, None]
    actor: AuditEventActor
    #: The name of a route, or of one that would do the same
    action: str
    subject: AuditEventSubject
    request_id: Union[str, None]
    source_address: Union[str, None]
    #: Never a secret
    details: dict[str, Any]
    sequence: Union[int, None]
    sha256: Union[str, None]


class AuditEventList(TypedDict):
    data: list[AuditEvent]
    next_cursor: Union[str, None]


class BuildEgress(TypedDict):
    #: auto: where Debian packages and those of languages come from, and extra_hosts. allowlist: allow_hosts alone
    mode: Literal["auto", "allow_all", "allowlist", "deny_all"]
    #: With auto alone
    extra_hosts: NotRequired[list[str]]
    #: With allowlist alone, and then at least one
    allow_hosts: NotRequired[list[str]]


class Caps(TypedDict):
    cpu_millis: NotRequired[int]
    memory_mib: NotRequired[int]
    disk_gib: NotRequired[int]


class ChallengeRequest(TypedDict):
    #: Six digits of the authenticator
    code: NotRequired[str]
    #: In the place of a code
    recovery_code: NotRequired[str]


class Change(TypedDict):
    path: str
    change: Literal["added", "modified", "metadata", "deleted", "replaced"]
    #: Of what is there; of what was there when deleted
    type: Literal["file", "directory", "symlink", "other"]
    size: int
    #: Octal
    mode: str
    sha256: NotRequired[str]


class ChangeCounts(TypedDict):
    added: int
    modified: int
    metadata: int
    deleted: int
    replaced: int


class ChangedEmail(TypedDict):
    email: str


class ChangesSummary(TypedDict):
    added: int
    modified: int
    metadata: int
    deleted: int
    replaced: int
    #: Counting took too long: there are more
    truncated: bool


class Changes(TypedDict):
    #: A directory, then what is in it, names byte by byte. Without what the service itself writes, as long as it is so: hostname,
    #: hosts, resolv.conf and machine-id below /etc
    data: list[Change]
    next_cursor: Union[str, None]
    summary: Union[ChangesSummary, None]


class CheckoutRequest(TypedDict):
    #: Slug of a plan of the catalog
    plan: str


class Checkpoint(TypedDict):
    id: str
    workspace_id: str
    #: The operation that wrote it
    operation_id: str
    #: snapshot: kept until it or the workspace is deleted; recovery: kept until expires_at; suspend and fork: kept until the next
    #: suspend or adoption
    kind: Literal["suspend", "fork", "snapshot", "recovery"]
    label: Union[str, None]
    #: false: it is of a disk alone, and a machine of it starts from that
    memory: bool
    #: Stored bytes of its memory image
    size_bytes: int
    disk_bytes: Union[int, None]
    resources: Resources
    created_at: str
    expires_at: Union[str, None]


class CheckpointList(TypedDict):
    data: list[Checkpoint]
    next_cursor: Union[str, None]


class ClientVersionsClientsItem(TypedDict):
    package: str
    ecosystem: Literal["npm", "pypi"]
    latest: Union[str, None]
    minimum_supported: str
    upgrade_command: str
    release_notes_url: str


class ClientVersions(TypedDict):
    clients: list[ClientVersionsClientsItem]


class CodeRequest(TypedDict):
    #: Six digits of the authenticator
    code: str


class CommandList(TypedDict):
    data: list[ListedCommand]
    next_cursor: Union[str, None]


class CopyStep(TypedDict):
    copy: list[str]
    #: An absolute path: a directory where it ends with / or several are copied, else what the one is to be called
    to: str
    #: root when absent
    user: NotRequired[str]
    #: In octal digits
    mode: NotRequired[str]


class CurrentSessionUser(TypedDict):
    id: str
    email: str
    email_verified: bool
    display_name: Union[str, None]
    mfa_enabled: bool


class CurrentSession(TypedDict):
    id: str
    device: Union[str, None]
    address: Union[str, None]
    created_at: str
    #: To the hour
    last_used_at: str
    session_expires_at: str
    mfa_required: bool
    email_verified: bool
    stepped_up_until: Union[str, None]
    user: Union[CurrentSessionUser, None]


class DraftPublishRequest(TypedDict):
    #: A state of the draft; omitted: what the draft holds now, which is captured
    state_id: NotRequired[str]
    defaults: NotRequired[TemplateDefaults]
    #: Workspaces are opened with the version as soon as it is there
    auto_publish: NotRequired[bool]
    #: Absolute paths of files that may hold what looks like a secret; at most 200
    acknowledged_scan_findings: NotRequired[list[str]]
    settings: NotRequired[TemplateSettingsInput]
    description: NotRequired[str]


class DraftState(TypedDict):
    id: str
    label: Union[str, None]
    #: Of the workspace of the draft
    checkpoint_id: str
    #: What has captured it
    operation_id: str
    size_bytes: Union[int, None]
    created_at: str


class DraftStateList(TypedDict):
    data: list[DraftState]
    next_cursor: Union[str, None]


class DraftStateRequest(TypedDict):
    #: For people
    label: NotRequired[str]


class DraftTestInstanceRequest(TypedDict):
    #: A state of the draft; omitted: the newest
    state_id: NotRequired[str]
    #: Keys that start with sf: are reserved
    key: NotRequired[str]
    caps: NotRequired[Caps]
    #: Names the agent session; `default` when absent
    agent_label: NotRequired[str]
    #: Default: all that the principal may use. At least one: a token without any could call nothing, and `[]` is more often a slip
    tools: NotRequired[list[Literal["exec", "files", "pty", "process", "git", "browser"]]]
    inputs: NotRequired[dict[str, Any]]


class EgressDenial(TypedDict):
    name: Union[str, None]
    address: Union[str, None]
    port: Union[int, None]
    #: dns: the name itself was refused
    protocol: Literal["tcp", "udp", "dns", "other"]
    #: Packets or questions
    count: int
    first_at: str
    last_at: str


class EgressDenialList(TypedDict):
    data: list[EgressDenial]
    next_cursor: Union[str, None]


class EgressPolicyRequestRulesItem(TypedDict):
    #: A fully qualified name, or `*.` and one: `*` stands for exactly one label. In lower case and ASCII (IDNA), which it becomes
    host: str
    ports: NotRequired[list[int]]
    protocols: NotRequired[list[Literal["tcp"]]]


class EgressPolicyRequest(TypedDict):
    #: allow_all: all that is public. allowlist: what rules and cidrs name, and nothing without them. deny_all: nothing
    mode: Literal["allow_all", "allowlist", "deny_all"]
    #: With allowlist alone
    rules: NotRequired[list[EgressPolicyRequestRulesItem]]
    #: With allowlist alone
    cidrs: NotRequired[list[str]]


class EgressRule(TypedDict):
    #: A fully qualified name, or `*.` and one: `*` stands for exactly one label. In lower case and ASCII (IDNA)
    host: str
    ports: list[int]
    protocols: list[Literal["tcp"]]


class EgressRules(TypedDict):
    #: allow_all: all that is public. allowlist: what rules and cidrs name, and nothing without them. deny_all: nothing
    mode: Literal["allow_all", "allowlist", "deny_all"]
    #: A set, as cidrs and ports are: their order means nothing, and may be another in each answer
    rules: list[EgressRule]
    cidrs: list[str]


class EgressVersionCreatedBy(TypedDict):
    type: Literal["user", "api_key"]
    id: str


class EgressVersion(TypedDict):
    version: int
    #: The override was taken back: mode is null
    cleared: bool
    mode: Union[Literal["allow_all", "allowlist", "deny_all"], None]
    #: A set, as cidrs and ports are: their order means nothing, and may be another in each answer
    rules: list[EgressRule]
    cidrs: list[str]
    created_at: str
    created_by: EgressVersionCreatedBy


class EgressVersionList(TypedDict):
    data: list[EgressVersion]
    next_cursor: Union[str, None]


class EmailChangeRequest(TypedDict):
    new_email: str


class EmailRequest(TypedDict):
    email: str


class EmailedTokenRequest(TypedDict):
    #: From the link of a mail: what stands behind `#token=`
    token: str


class Entitlement(TypedDict):
    name: Literal["concurrent_workspaces", "cpu_millis", "memory_mib", "disk_gib", "cpu_hours", "ram_gib_hours", "shared_volumes_max", "shared_volume_gib_max", "volume_attachments_per_workspace", "concurrent_template_builds"]
    #: missing: what it limits is refused until the plan says it
    kind: Literal["value", "unlimited", "missing"]
    value: Union[int, None]


class Entitlements(TypedDict):
    organization_id: str
    #: Its slug
    plan: str
    entitlements: list[Entitlement]


class ErrorEnvelopeErrorDetails(TypedDict):
    reason: NotRequired[str]
    issues: NotRequired[list[Issue]]


class ErrorEnvelopeError(TypedDict):
    #: One of a closed set of snake_case codes
    code: str
    #: A sentence for people; never branch on it
    message: str
    #: The value of the X-Request-Id header of this answer
    request_id: str
    #: Whether the same request may succeed later
    retryable: bool
    #: The lifecycle operation that caused the error
    operation_id: NotRequired[str]
    #: Details of the code, most often `reason`
    details: NotRequired[ErrorEnvelopeErrorDetails]


class ErrorEnvelope(TypedDict):
    error: ErrorEnvelopeError


class ExecSession(TypedDict):
    session_id: str
    argv: list[str]
    cwd: str
    user: str
    pid: Union[int, None]
    state: Literal["running", "exited", "failed_to_start", "lost"]
    exit_code: Union[int, None]
    term_signal: Union[str, None]
    timed_out: bool
    #: It failed, and a process of it had been ended: the workspace was about to be out of memory, or had more processes than it may
    reason: NotRequired[Literal["out_of_memory", "process_limit"]]
    started_at: Union[str, None]
    ended_at: Union[str, None]
    error: Union[str, None]
    stdout_bytes: int
    stderr_bytes: int
    #: First byte that is still retained. A workspace retains output up to the smaller of 2 GiB and a quarter of its disk, three
    #: quarters of that for all its commands together and the rest for its terminals; the oldest commands that have ended give
    #: theirs up first, unless those that run hold more than half.
    stdout_available_from: int
    #: First byte that is still retained. A workspace retains output up to the smaller of 2 GiB and a quarter of its disk, three
    #: quarters of that for all its commands together and the rest for its terminals; the oldest commands that have ended give
    #: theirs up first, unless those that run hold more than half.
    stderr_available_from: int
    stdin: NotRequired[ExecStdin]


class ExecStart(TypedDict):
    session_id: NotRequired[str]
    argv: list[str]
    #: Absolute path, /home/user when absent
    cwd: NotRequired[str]
    env: NotRequired[dict[str, str]]
    user: NotRequired[str]
    #: 1 MiB at most; then closed
    stdin: NotRequired[str]
    stdin_encoding: NotRequired[Literal["utf8", "base64"]]
    #: It is not closed after `stdin`: more may be sent, until it is closed or the command ends
    stdin_open: NotRequired[bool]
    timeout_ms: NotRequired[int]
    kill_grace_ms: NotRequired[int]
    secret_refs: NotRequired[list[str]]
    #: File-first: required, 8 to 128 characters
    execution_id: NotRequired[str]
    #: File-first: of stdout and stderr each, 1 to 16777216
    output_limit_bytes: NotRequired[int]


class ExecStdin(TypedDict):
    #: Bytes taken so far, those of `stdin` at the start among them; the command may not have read them yet
    offset: int
    open: bool


class ExecutionChangedItem(TypedDict):
    path: str
    change: Literal["added", "modified", "deleted"]
    type: Literal["file", "directory", "symlink"]


class ExecutionTimings(TypedDict):
    #: Until a host had room
    queued: int
    #: Until the host's copy of the files was at the base revision
    tree: int
    #: Until the machine was ready
    start: int
    #: Of the command
    run: int
    #: Until the machine had ended
    stop: int
    #: Until what it changed was the next revision
    publish: int


class ExecutionErrorDetails(TypedDict):
    reason: Literal["exec_failed_to_start", "start_failed", "layout_unsupported", "guest_feature_unavailable", "invalid_name", "disk_full", "too_many_changes", "tree_moved", "blob_missing", "blob_corrupt", "internal_error", "lease_expired", "host_unreachable", "host_restarted"]


class ExecutionError(TypedDict):
    code: str
    message: str
    #: Whether the same command may succeed under another execution_id
    retryable: bool
    details: ExecutionErrorDetails


class Execution(TypedDict):
    execution_id: str
    state: Literal["queued", "running", "succeeded", "failed", "lost"]
    #: That it runs on
    base_revision: int
    tree_revision: Union[int, None]
    exit_code: Union[int, None]
    term_signal: Union[str, None]
    timed_out: bool
    #: From its beginning, up to the limit
    stdout: str
    #: From its beginning, up to the limit
    stderr: str
    stdout_truncated: bool
    stderr_truncated: bool
    #: Of a directory that was deleted, only itself
    changed: list[ExecutionChangedItem]
    changed_truncated: bool
    timings: ExecutionTimings
    error: Union[ExecutionError, None]
    created_at: str
    finished_at: Union[str, None]


class ExecutionList(TypedDict):
    data: list[ListedExecution]
    next_cursor: Union[str, None]


class Export(TypedDict):
    id: str
    organization_id: Union[str, None]
    #: The person
    requested_by: str
    #: Only one that is ready can be read
    state: Literal["queued", "running", "ready", "failed", "expired"]
    failure: Union[Literal["export_too_large", "internal_error"], None]
    size_bytes: Union[int, None]
    sha256: Union[str, None]
    created_at: str
    completed_at: Union[str, None]
    expires_at: Union[str, None]


class ExportList(TypedDict):
    data: list[Export]
    next_cursor: Union[str, None]


class Feedback(TypedDict):
    #: Of the first one, where it is a duplicate
    id: str
    received_at: str
    #: The same message came from the same caller within 24 hours
    duplicate: bool


class FeedbackContext(TypedDict):
    #: Which agent, by its label
    agent: NotRequired[str]
    #: Its key or id
    workspace: NotRequired[str]
    #: Of the answer that it is about
    request_id: NotRequired[str]
    #: That was answered
    error_code: NotRequired[str]
    #: That was run
    command: NotRequired[str]
    #: The package and its version
    client: NotRequired[str]


class FeedbackCreate(TypedDict):
    message: str
    #: Absent: other
    category: NotRequired[Literal["bug", "confusing", "missing", "idea", "praise", "other"]]
    context: NotRequired[FeedbackContext]


class FileInfo(TypedDict):
    #: Bytes that are not UTF-8 are shown escaped (`\xff`); a path with such a name cannot be asked for
    path: str
    #: Bytes that are not UTF-8 are shown escaped (`\xff`); a path with such a name cannot be asked for
    name: str
    type: Literal["file", "directory", "symlink", "other"]
    size: int
    #: Octal
    mode: str
    modified_at: str
    revision: NotRequired[str]
    #: Where a symbolic link leads
    target: NotRequired[str]


class FileList(TypedDict):
    entries: list[FileInfo]
    #: There is more
    truncated: bool
    next_cursor: Union[str, None]


class FilePatchEditsItem(TypedDict):
    #: Not empty. Occurs exactly once, unless `replace_all` is set
    old_text: str
    new_text: str
    replace_all: NotRequired[bool]


class FilePatch(TypedDict):
    #: Absolute, UTF-8, 4096 bytes at most
    path: str
    #: Each applies to the text that the one before left; at most 1000, in UTF-8 text of at most 16777216 bytes
    edits: NotRequired[list[FilePatchEditsItem]]
    #: The whole new content, of a new file as well
    content: NotRequired[str]
    #: SHA-256 of the content, or `absent` for a file that is not there
    expected_revision: NotRequired[str]


class FileSearch(TypedDict):
    #: A directory, or one file
    path: str
    #: A literal, or with `regex` an RE2 expression, matched line by line; 4096 bytes at most
    pattern: str
    regex: NotRequired[bool]
    case_insensitive: NotRequired[bool]
    #: Globs with `**` and `{a,b}`, 256 bytes at most. One with a slash is of the path below `path`, one without of the name, at any
    #: depth; an excluded directory is left out with all below it
    include: NotRequired[list[str]]
    #: Globs with `**` and `{a,b}`, 256 bytes at most. One with a slash is of the path below `path`, one without of the name, at any
    #: depth; an excluded directory is left out with all below it
    exclude: NotRequired[list[str]]
    max_matches: NotRequired[int]
    #: Larger files are skipped, as binary ones (with a NUL) are, and what is no regular file; links are not followed. More than
    #: 16777216 counts as that
    max_file_bytes: NotRequired[int]
    context_lines: NotRequired[int]
    #: `next_cursor` of the answer before, to the same request: it goes on there
    cursor: NotRequired[str]


class ForkRequest(TypedDict):
    #: Keys that start with sf: are reserved
    key: str
    caps: NotRequired[Caps]
    lifetime: NotRequired[Literal["persistent", "session"]]


class ForkTreeRequest(TypedDict):
    #: Keys that start with sf: are reserved
    key: str
    #: A revision that is kept; the current one where it is not said
    tree_revision: NotRequired[int]


class GitCommitted(TypedDict):
    #: Absolute, 4096 bytes at most
    path: str
    branch: Union[str, None]
    commit: str


class GitFile(TypedDict):
    #: Below root; what is not UTF-8 is U+FFFD
    path: str
    index: Literal["unmodified", "modified", "type_changed", "added", "deleted", "renamed", "copied", "unmerged", "untracked"]
    worktree: Literal["unmodified", "modified", "type_changed", "added", "deleted", "renamed", "copied", "unmerged", "untracked"]
    renamed_from: Union[str, None]
    conflicted: bool


class GitHead(TypedDict):
    #: Absolute, 4096 bytes at most
    path: str
    branch: Union[str, None]
    commit: Union[str, None]


class GitStatus(TypedDict):
    #: The top of the working tree
    root: str
    branch: Union[str, None]
    head: Union[str, None]
    upstream: Union[str, None]
    ahead: Union[int, None]
    behind: Union[int, None]
    clean: bool
    files: list[GitFile]
    #: There are more files than these
    truncated: bool


class HostedPage(TypedDict):
    #: Where the person goes on
    url: str
    expires_at: Union[str, None]


class IdleRecentActivity(TypedDict):
    #: Of any kind
    active_at: str
    tool_call_at: Union[str, None]
    busy_until: Union[str, None]
    keepalive_until: Union[str, None]


class Idle(TypedDict):
    #: `adaptive`, `never` or `fixed:<seconds>`: the one that applies
    policy: str
    timeout_seconds: Union[int, None]
    #: Where the timeout comes from
    basis: Literal["default", "fixed", "learned", "session", "never"]
    next_eligible_at: Union[str, None]
    next_eligible_by: Union[Literal["policy", "request"], None]
    suspend_request: Union[SuspendRequest, None]
    recent_activity: IdleRecentActivity
    background_seconds: Union[int, None]
    #: Idle suspends that failed since one succeeded; each doubles the wait for the next
    failed_suspends: int


class IdleRecordRecentActivity(TypedDict):
    #: Of any kind
    active_at: str
    tool_call_at: Union[str, None]
    busy_until: Union[str, None]
    keepalive_until: Union[str, None]


class IdleRecordAwakeItem(TypedDict):
    #: call: a tool call in progress; stream: one that is attached; command: started through exec
    kind: Literal["call", "stream", "command", "keepalive", "operation"]
    since: Union[str, None]
    until: Union[str, None]
    session_id: Union[str, None]
    route: Union[str, None]
    operation_id: Union[str, None]


class IdleRecord(TypedDict):
    #: `adaptive`, `never` or `fixed:<seconds>`: the one that applies
    policy: str
    timeout_seconds: Union[int, None]
    #: Where the timeout comes from
    basis: Literal["default", "fixed", "learned", "session", "never"]
    recent_activity: IdleRecordRecentActivity
    idle_since: Union[str, None]
    #: What keeps it from being idle: of calls, streams and commands the oldest few
    awake: list[IdleRecordAwakeItem]
    suspend_request: Union[SuspendRequest, None]
    suspend_at: Union[str, None]
    suspend_by: Union[Literal["policy", "request"], None]
    residency: Residency
    #: Idle suspends that failed since one succeeded; each doubles the wait for the next
    failed_suspends: int


class Invitation(TypedDict):
    id: str
    organization_id: str
    email: str
    role: Literal["owner", "admin", "member", "billing"]
    invited_by: Union[str, None]
    created_at: str
    expires_at: str


class InvitationAccept(TypedDict):
    #: From the link of a mail: what stands behind `#token=`
    token: str


class InvitationCreate(TypedDict):
    email: str
    role: Literal["owner", "admin", "member", "billing"]


class InvitationList(TypedDict):
    data: list[Invitation]
    next_cursor: Union[str, None]


class InvoicePeriod(TypedDict):
    starts_at: str
    #: Its end, which is the beginning of the next
    ends_at: str


class Invoice(TypedDict):
    id: str
    organization_id: str
    number: str
    state: Literal["open", "paid", "void"]
    period: InvoicePeriod
    currency: str
    lines: list[InvoiceLine]
    #: Smallest units of the currency: the sum of the lines
    total_minor: int
    issued_at: str
    #: From then on new starts are refused until it is paid
    due_at: str
    paid_at: Union[str, None]
    voided_at: Union[str, None]


class InvoiceLine(TypedDict):
    #: plan: its price for a part of the period; overage: use beyond an allowance; cap: what is taken off, since no period costs
    #: more than its cap
    kind: Literal["plan", "overage", "cap"]
    #: Slug of the plan
    plan: str
    starts_at: str
    ends_at: str
    allowance: Union[Literal["cpu_hours", "ram_gib_hours"], None]
    units: Union[int, None]
    unit_minor: Union[int, None]
    amount_minor: int


class InvoiceList(TypedDict):
    data: list[Invoice]
    next_cursor: Union[str, None]


class Issue(TypedDict):
    #: Of a body: names and positions joined by dots. Else the name of the parameter or header
    path: str
    message: str
    #: A word for it, for programs. Not every route has one
    reason: NotRequired[str]
    #: Of a name that is not known: the known one that is most like it
    nearest: NotRequired[str]


class KeepaliveAnswer(TypedDict):
    keepalive_until: str


class ListedCommand(TypedDict):
    session_id: str
    argv: list[str]
    cwd: str
    user: str
    pid: Union[int, None]
    state: Literal["running", "exited", "failed_to_start", "lost"]
    exit_code: Union[int, None]
    term_signal: Union[str, None]
    timed_out: bool
    #: It failed, and a process of it had been ended: the workspace was about to be out of memory, or had more processes than it may
    reason: NotRequired[Literal["out_of_memory", "process_limit"]]
    started_at: Union[str, None]
    ended_at: Union[str, None]
    error: Union[str, None]
    stdout_bytes: int
    stderr_bytes: int
    stdin: NotRequired[ExecStdin]
    #: argv is longer: its first 512 bytes are told
    argv_truncated: bool


class ListedExecutionErrorDetails(TypedDict):
    reason: Literal["exec_failed_to_start", "start_failed", "layout_unsupported", "guest_feature_unavailable", "invalid_name", "disk_full", "too_many_changes", "tree_moved", "blob_missing", "blob_corrupt", "internal_error", "lease_expired", "host_unreachable", "host_restarted"]


class ListedExecutionError(TypedDict):
    code: str
    message: str
    #: Whether the same command may succeed under another execution_id
    retryable: bool
    details: ListedExecutionErrorDetails


class ListedExecution(TypedDict):
    execution_id: str
    argv: Union[list[str], None]
    #: argv is longer: its first 512 bytes are told
    argv_truncated: bool
    cwd: Union[str, None]
    state: Literal["queued", "running", "succeeded", "failed", "lost"]
    #: That it runs on
    base_revision: int
    tree_revision: Union[int, None]
    exit_code: Union[int, None]
    term_signal: Union[str, None]
    timed_out: bool
    error: Union[ListedExecutionError, None]
    created_at: str
    finished_at: Union[str, None]


class ListedTerminal(TypedDict):
    session_id: str
    argv: list[str]
    cwd: str
    user: str
    pid: Union[int, None]
    cols: int
    rows: int
    state: Literal["running", "exited", "failed_to_start", "lost"]
    exit_code: Union[int, None]
    term_signal: Union[str, None]
    started_at: Union[str, None]
    ended_at: Union[str, None]
    error: Union[str, None]
    output_bytes: int
    #: argv is longer: its first 512 bytes are told
    argv_truncated: bool


class LoginRequest(TypedDict):
    email: str
    password: str
    #: How the session is called in the list of sessions; absent: what the program says of itself
    device: NotRequired[str]


class Member(TypedDict):
    person_id: str
    email: str
    display_name: Union[str, None]
    role: Literal["owner", "admin", "member", "billing"]
    mfa_enabled: bool
    #: Since when they are a member
    created_at: str


class MemberList(TypedDict):
    data: list[Member]
    next_cursor: Union[str, None]


class MemberUpdate(TypedDict):
    role: Literal["owner", "admin", "member", "billing"]


class NewName(TypedDict):
    name: str
    #: Small letters, digits and hyphens; stays as it is. Absent: made of the name
    slug: NotRequired[str]


class OpenRequest(TypedDict):
    #: Keys that start with sf: are reserved
    key: str
    #: Slug; a new workspace uses the template's latest published version. slug@version: it uses this one, published and not
    #: archived
    template: str
    caps: NotRequired[Caps]
    project_id: NotRequired[str]
    #: Names the agent session; `default` when absent
    agent_label: NotRequired[str]
    #: Default: all that the principal may use. At least one: a token without any could call nothing, and `[]` is more often a slip
    tools: NotRequired[list[Literal["exec", "files", "pty", "process", "git", "browser"]]]
    secrets: NotRequired[list[str]]
    inputs: NotRequired[dict[str, Any]]
    lifetime: NotRequired[Literal["persistent", "session"]]
    #: adaptive, never or fixed:<60..604800>
    idle_policy: NotRequired[str]
    #: For work in the background: for so long after its last use the machine of a new workspace is not parked though its processes
    #: use neither processor nor network. Never shorter than the cell waits with others; omitted: what the template says
    background_seconds: NotRequired[int]
    mode: NotRequired[Literal["processful", "file_first"]]


class OpenResponse(TypedDict):
    workspace: Workspace
    operation: Union[Operation, None]
    cell_endpoint: Union[str, None]
    tool_token: Union[ToolToken, None]
    #: What the call asked for and the workspace does not have. Of one that exists already nothing of it is applied; an open applies
    #: its inputs, a test instance and a draft keep theirs. Of a new one `caps` stands here where one is above the limit of template
    #: or plan: `workspace.ceilings` says what it has
    ignored: NotRequired[list[Literal["template", "base", "caps", "inputs", "idle_policy", "background_seconds"]]]


class OperationRequestedBy(TypedDict):
    kind: Literal["user", "api_key", "tool_token", "operator", "service"]
    id: Union[str, None]
    name: Union[str, None]


class Operation(TypedDict):
    id: str
    kind: Literal["open", "suspend", "resume", "fork", "snapshot", "restore", "adopt", "delete", "reset", "layer_snapshot", "volume_create", "volume_delete", "volume_attach", "volume_detach", "template_build", "move"]
    state: Literal["queued", "capacity_pending", "running", "succeeded", "failed", "canceled"]
    state_reason: Union[str, None]
    workspace_id: Union[str, None]
    created_at: str
    updated_at: str
    started_at: Union[str, None]
    completed_at: Union[str, None]
    error: Union[OperationError, None]
    result: Union[dict[str, Any], None]
    #: What it was asked, such as reason, requested_at, after_seconds, source_workspace_id
    input: dict[str, Any]
    requested_by: NotRequired[Union[OperationRequestedBy, None]]


class OperationAndWorkspace(TypedDict):
    operation: Operation
    workspace: Workspace


class OperationError(TypedDict):
    code: Literal["capacity_unavailable", "invalid_resources", "startup_failed", "layout_unsupported", "dependency_failed", "checkpoint_failed", "checkpoint_corrupt", "checkpoint_incompatible", "interrupted", "canceled", "internal_error"]
    message: str
    retryable: bool
    #: While it waits for room: deadline_at. By code: reason, waited_seconds, required, host_class, …
    details: dict[str, Any]


class OperationList(TypedDict):
    data: list[Operation]
    next_cursor: Union[str, None]


class Organization(TypedDict):
    id: str
    name: str
    slug: str
    role: Union[Literal["owner", "admin", "member", "billing"], None]
    created_at: str


class OrganizationDelete(TypedDict):
    confirm_slug: str


class OrganizationList(TypedDict):
    data: list[Organization]
    next_cursor: Union[str, None]


class OrganizationSecretCreateHostsItem(TypedDict):
    #: A name as egress policies have it; `*.` in front stands for one label
    host: str
    #: Default: 443
    ports: NotRequired[list[int]]
    #: The header that is the value
    header: NotRequired[str]
    #: Authorization: Bearer, and the value
    bearer: NotRequired[Literal[True]]
    #: Authorization: Basic, of this user with the value as password
    basic_user: NotRequired[str]
    #: The parameter of the query that is the value
    query: NotRequired[str]


class OrganizationSecretCreate(TypedDict):
    #: The environment variable that its value becomes; names that start with SERVICE_ are reserved
    name: str
    description: NotRequired[Union[str, None]]
    #: Never returned. UTF-8 text of at most 65536 bytes, without NUL
    value: str
    allowed_workspace_ids: NotRequired[Union[list[str], None]]
    #: What may be started with its value. It can be bound to a workspace only with both `exec` and `pty` among them
    allowed_tools: NotRequired[list[Literal["exec", "files", "pty", "process", "git", "browser"]]]
    hosts: NotRequired[Union[list[OrganizationSecretCreateHostsItem], None]]
    allowed_project_ids: NotRequired[Union[list[str], None]]


class Origin_(TypedDict):
    kind: Literal["template_version"]
    template_id: str
    version: int


class Origin2(TypedDict):
    kind: Literal["draft_state"]
    checkpoint_id: str
    #: Of the draft
    state_id: NotRequired[str]
    #: Whose draft it was
    template_id: NotRequired[str]


Origin: TypeAlias = "Union[Origin_, Origin2]"


class OverageRates(TypedDict):
    cpu_hour_minor: Union[int, None]
    ram_gib_hour_minor: Union[int, None]


class PasswordChangeRequest(TypedDict):
    current_password: str
    #: Any characters but NUL. Composed and decomposed forms of a letter are the same
    new_password: str
    #: Whether all other sessions of the person end too; absent: they go on
    end_other_sessions: NotRequired[bool]


class PasswordResetRequest(TypedDict):
    #: From the link of a mail: what stands behind `#token=`
    token: str
    #: Any characters but NUL. Composed and decomposed forms of a letter are the same
    new_password: str


class PatchResult(TypedDict):
    path: str
    revision: str
    #: null where the patch made the file; absent above 256 MiB
    previous_revision: NotRequired[Union[str, None]]
    bytes_written: int
    #: The bytes and the name survive a power cut
    durable: bool
    replacements: int
    file: FileInfo


class PaymentEventReceived(TypedDict):
    received: Literal[True]


class PersonSession(TypedDict):
    id: str
    device: Union[str, None]
    address: Union[str, None]
    created_at: str
    #: To the hour
    last_used_at: str
    session_expires_at: str
    mfa_required: bool
    #: It is the one that asks
    is_current: bool


class PersonSessionList(TypedDict):
    data: list[PersonSession]
    next_cursor: Union[str, None]


class PlanOverageRates(TypedDict):
    cpu_hour_minor: Union[int, None]
    ram_gib_hour_minor: Union[int, None]


class Plan(TypedDict):
    slug: str
    name: str
    currency: Union[str, None]
    price_minor: Union[int, None]
    overage_rates: PlanOverageRates
    entitlements: list[Entitlement]


class PlanList(TypedDict):
    data: list[Plan]
    next_cursor: Union[str, None]


class PortCallback_(TypedDict):
    created_at: str


class Port(TypedDict):
    workspace_id: str
    port: int
    #: The same for as long as the workspace is there
    url: str
    callback: Union[PortCallback_, None]
    #: That reached the workspace since the port was exposed; this and the next are seconds late
    requests: int
    #: From visitors
    received_bytes: int
    #: Back to visitors: outbound transfer
    sent_bytes: int
    last_request_at: Union[str, None]
    created_at: str


class PortCallback(TypedDict):
    #: Shown once. What follows it is the path in the app
    url: str
    workspace_id: str
    port: int
    created_at: str


class PortLink(TypedDict):
    #: Shown once. Whoever opens it is let in until it expires
    url: str
    path: str
    workspace_id: str
    port: int
    created_at: str
    expires_at: str


class PortList(TypedDict):
    data: list[Port]
    next_cursor: Union[str, None]


class PortToken(TypedDict):
    #: Shown once. Sent as `Authorization: Bearer sfp_…` or as `X-Service-Token: sfp_…`
    token: str
    token_type: Literal["Bearer"]
    #: Of the port
    url: str
    workspace_id: str
    port: int
    created_at: str
    expires_at: str


class PrincipalUser(TypedDict):
    id: str
    email: str
    email_verified: bool
    display_name: Union[str, None]
    mfa_enabled: bool


class PrincipalMembershipsItem(TypedDict):
    organization_id: str
    organization_name: str
    organization_slug: str
    role: Literal["owner", "admin", "member", "billing"]


class PrincipalApiKey(TypedDict):
    id: str
    key_id: str
    organization_id: str
    project_id: str
    tool_permissions: list[Literal["exec", "files", "pty", "process", "git", "browser"]]


class Principal(TypedDict):
    type: Literal["user", "api_key"]
    user: Union[PrincipalUser, None]
    memberships: list[PrincipalMembershipsItem]
    api_key: Union[PrincipalApiKey, None]


class Process(TypedDict):
    pid: int
    #: 0: started by the service
    ppid: int
    #: Decimal uid where the workspace has no name for it
    user: str
    name: str
    #: argv, of which the first 4096 bytes are told; what is not UTF-8 is U+FFFD; empty for a zombie
    command: list[str]
    command_truncated: bool
    state: Literal["running", "sleeping", "waiting", "stopped", "traced", "zombie", "dead", "unknown"]
    threads: int
    #: User and system time together
    cpu_ms: int
    #: Resident
    memory_bytes: int
    started_at: str
    session_id: Union[str, None]


class ProcessList(TypedDict):
    processes: list[Process]
    truncated: bool


class Project(TypedDict):
    id: str
    organization_id: str
    name: str
    slug: str
    created_at: str


class ProjectEgressPolicy(TypedDict):
    project_id: str
    #: allow_all: all that is public. allowlist: what rules and cidrs name, and nothing without them. deny_all: nothing
    mode: Literal["allow_all", "allowlist", "deny_all"]
    #: A set, as cidrs and ports are: their order means nothing, and may be another in each answer
    rules: list[EgressRule]
    cidrs: list[str]
    #: Of the project; 0: nobody has set a policy. The value of If-Match, and the ETag
    version: int
    updated_at: Union[str, None]


class ProjectList(TypedDict):
    data: list[Project]
    next_cursor: Union[str, None]


class RecipeLanguagesItem(TypedDict):
    name: str
    version: NotRequired[str]


class RecipeDefaults(TypedDict):
    cpu_millis: NotRequired[int]
    memory_mib: NotRequired[int]
    disk_gib: NotRequired[int]
    lifetime: NotRequired[Union[Literal["persistent"], Literal["session"]]]
    idle_policy: NotRequired[str]
    session_idle_seconds: NotRequired[int]
    #: For so long a machine that is unused and quiet is not parked, where that is longer than in its cell
    background_seconds: NotRequired[int]


class RecipeCeiling(TypedDict):
    cpu_millis: NotRequired[int]
    memory_mib: NotRequired[int]
    disk_gib: NotRequired[int]


class Recipe(TypedDict):
    #: slug@version of the organization or of the platform; slug: its latest version; upload: with the id of an upload: the root
    #: file system that it holds, as a tar or as a tar of an OCI image layout
    base: NotRequired[str]
    architecture: NotRequired[Literal["amd64", "arm64"]]
    #: Installed at first, by apt
    packages: NotRequired[list[str]]
    languages: NotRequired[list[RecipeLanguagesItem]]
    #: Written before the steps
    files: NotRequired[list[RecipeFile]]
    #: One after the other
    steps: NotRequired[list[Union[RunStep, CopyStep]]]
    egress: NotRequired[BuildEgress]
    #: Environment of every command
    env: NotRequired[dict[str, str]]
    inputs: NotRequired[dict[str, TemplateInput]]
    start: NotRequired[list[StartCommand]]
    services: NotRequired[list[Service]]
    #: A machine is started up ahead without network, inputs and secrets, and saved; an open that gives nothing its start-up needs
    #: restores it
    warm: NotRequired[bool]
    #: Of an open that does not say otherwise; what is absent is the base's
    defaults: NotRequired[RecipeDefaults]
    ceiling: NotRequired[RecipeCeiling]


class RecipeFile(TypedDict):
    #: Absolute
    path: str
    content: NotRequired[str]
    #: Instead of content
    content_base64: NotRequired[str]
    #: root when absent
    user: NotRequired[str]
    #: In octal digits
    mode: NotRequired[str]


class RecoveryCodes(TypedDict):
    #: Those before are good no more
    recovery_codes: list[str]


class RecoveryCodesLeft(TypedDict):
    left: int


class RegisterRequest(TypedDict):
    email: str
    #: Any characters but NUL. Composed and decomposed forms of a letter are the same
    password: str
    display_name: NotRequired[str]
    #: From the link of a mail: what stands behind `#token=`
    invitation_token: NotRequired[str]


class Rename(TypedDict):
    name: str


class ResetRequest(TypedDict):
    #: Must be true: every change is wiped
    confirm_destructive: NotRequired[bool]


class Residency(TypedDict):
    state: Union[Literal["resident", "frozen", "hibernated", "restoring"], None]
    reason: Union[Literal["operation", "use", "keepalive", "wake_hint", "command", "busy", "recent", "never_parked"], None]
    park_after_seconds: Union[float, None]
    #: Who says so: the background_seconds of the workspace, those of its template, or the cell
    park_after_by: Literal["workspace", "template", "cell"]
    park_at: Union[str, None]


class Resources(TypedDict):
    cpu_millis: int
    memory_mib: int
    disk_gib: int


class RestoreRequest(TypedDict):
    #: A checkpoint of this workspace
    checkpoint_id: str
    #: false: only its disk is put back, and the workspace starts from it as after a loss of power. The checkpoint keeps its memory.
    #: With it a hibernated workspace may also name the checkpoint that a failed wake names. Default true
    memory: NotRequired[bool]


class RotatedSession(TypedDict):
    #: `sfu_` and 43 characters. Shown this once; the one before it is revoked
    session_token: str
    #: 30 days from now, or 90 days from the sign-in, whichever is earlier
    session_expires_at: str


class RunStep(TypedDict):
    run: Union[str, list[str]]
    #: root when absent
    user: NotRequired[str]
    #: It is made where it is not there
    cwd: NotRequired[str]
    #: Environment of every command
    env: NotRequired[dict[str, str]]
    timeout_seconds: NotRequired[int]


class SaveAsTemplateRequest(TypedDict):
    template_slug: str
    display_name: NotRequired[str]
    #: Of the workspace: what it holds is saved, and the workspace need not run
    checkpoint_id: NotRequired[str]
    defaults: NotRequired[TemplateDefaults]
    #: Workspaces are opened with the version as soon as it is there
    auto_publish: NotRequired[bool]
    #: Absolute paths of files that may hold what looks like a secret; at most 200
    acknowledged_scan_findings: NotRequired[list[str]]
    settings: NotRequired[TemplateSettingsInput]
    description: NotRequired[str]


class SaveAsTemplateResponse(TypedDict):
    operation: Union[Operation, None]
    build: TemplateBuild


class ScanFinding(TypedDict):
    #: Absolute
    path: str
    #: What it looks like
    rule: str
    #: The first one that it was found on
    line: int


class SearchMatch(TypedDict):
    path: str
    line: int
    #: Byte of the line, from 1
    column: int
    #: Cut to 1,000 bytes; bytes that are not UTF-8 are shown as U+FFFD
    text: str
    before: list[str]
    after: list[str]


class SearchResult(TypedDict):
    #: By path and line; one a line
    matches: list[SearchMatch]
    truncated: bool
    stop_reason: Union[Literal["max_matches", "time_limit", "byte_limit", "entry_limit", "answer_limit", "depth_limit"], None]
    files_scanned: int
    next_cursor: Union[str, None]


class SecretHostsItem(TypedDict):
    #: A name as egress policies have it; `*.` in front stands for one label
    host: str
    #: Default: 443
    ports: NotRequired[list[int]]
    #: The header that is the value
    header: NotRequired[str]
    #: Authorization: Bearer, and the value
    bearer: NotRequired[Literal[True]]
    #: Authorization: Basic, of this user with the value as password
    basic_user: NotRequired[str]
    #: The parameter of the query that is the value
    query: NotRequired[str]


class Secret(TypedDict):
    id: str
    organization_id: str
    project_id: Union[str, None]
    name: str
    description: Union[str, None]
    allowed_project_ids: Union[list[str], None]
    allowed_workspace_ids: Union[list[str], None]
    allowed_tools: list[Literal["exec", "files", "pty", "process", "git", "browser"]]
    hosts: Union[list[SecretHostsItem], None]
    #: The newest, which is used from the next start on
    version: int
    created_at: str
    updated_at: str
    deleted_at: Union[str, None]


class SecretCreateHostsItem(TypedDict):
    #: A name as egress policies have it; `*.` in front stands for one label
    host: str
    #: Default: 443
    ports: NotRequired[list[int]]
    #: The header that is the value
    header: NotRequired[str]
    #: Authorization: Bearer, and the value
    bearer: NotRequired[Literal[True]]
    #: Authorization: Basic, of this user with the value as password
    basic_user: NotRequired[str]
    #: The parameter of the query that is the value
    query: NotRequired[str]


class SecretCreate(TypedDict):
    #: The environment variable that its value becomes; names that start with SERVICE_ are reserved
    name: str
    description: NotRequired[Union[str, None]]
    #: Never returned. UTF-8 text of at most 65536 bytes, without NUL
    value: str
    allowed_workspace_ids: NotRequired[Union[list[str], None]]
    #: What may be started with its value. It can be bound to a workspace only with both `exec` and `pty` among them
    allowed_tools: NotRequired[list[Literal["exec", "files", "pty", "process", "git", "browser"]]]
    hosts: NotRequired[Union[list[SecretCreateHostsItem], None]]


class SecretList(TypedDict):
    data: list[Secret]
    next_cursor: Union[str, None]


class SecretUpdateHostsItem(TypedDict):
    #: A name as egress policies have it; `*.` in front stands for one label
    host: str
    #: Default: 443
    ports: NotRequired[list[int]]
    #: The header that is the value
    header: NotRequired[str]
    #: Authorization: Bearer, and the value
    bearer: NotRequired[Literal[True]]
    #: Authorization: Basic, of this user with the value as password
    basic_user: NotRequired[str]
    #: The parameter of the query that is the value
    query: NotRequired[str]


class SecretUpdate(TypedDict):
    description: NotRequired[Union[str, None]]
    allowed_project_ids: NotRequired[Union[list[str], None]]
    allowed_workspace_ids: NotRequired[Union[list[str], None]]
    #: What may be started with its value. It can be bound to a workspace only with both `exec` and `pty` among them
    allowed_tools: NotRequired[list[Literal["exec", "files", "pty", "process", "git", "browser"]]]
    hosts: NotRequired[Union[list[SecretUpdateHostsItem], None]]


class SecretVersion(TypedDict):
    id: str
    secret_id: str
    version: int
    created_at: str
    erased_at: Union[str, None]


class SecretVersionCreate(TypedDict):
    #: Never returned. UTF-8 text of at most 65536 bytes, without NUL
    value: str


class SecretVersionList(TypedDict):
    data: list[SecretVersion]
    next_cursor: Union[str, None]


class ServiceReady(TypedDict):
    #: It accepts connections on the loopback
    port: int


class ServiceReady2(TypedDict):
    argv: list[str]


class Service(TypedDict):
    #: Unique among the commands and services of the version
    name: str
    argv: list[str]
    #: /home/user when absent
    cwd: NotRequired[str]
    #: user when absent
    user: NotRequired[str]
    env: NotRequired[dict[str, str]]
    #: When it has ended
    restart: NotRequired[Literal["always", "on_failure", "never"]]
    ready: NotRequired[Union[ServiceReady, ServiceReady2]]
    ready_timeout_seconds: NotRequired[int]


class SignedIn(TypedDict):
    #: `sfu_` and 43 characters. Shown this once; the one before it is revoked
    session_token: str
    #: 30 days from now, or 90 days from the sign-in, whichever is earlier
    session_expires_at: str
    #: The session waits for POST /v1/auth/mfa/challenge and is good for nothing else
    mfa_required: bool
    #: Until it is, every other route answers `email_unverified`
    email_verified: bool


class SignedInWithCodes(TypedDict):
    #: `sfu_` and 43 characters. Shown this once; the one before it is revoked
    session_token: str
    #: 30 days from now, or 90 days from the sign-in, whichever is earlier
    session_expires_at: str
    #: Each signs in once in the place of a code. Shown this once
    recovery_codes: list[str]


class SnapshotRequest(TypedDict):
    #: For people
    label: NotRequired[str]


class SpendPeriod(TypedDict):
    starts_at: str
    #: Its end, which is the beginning of the next
    ends_at: str


class Spend(TypedDict):
    organization_id: str
    period: SpendPeriod
    spend_cap: SpendCap


class SpendAlertsPeriod(TypedDict):
    starts_at: str
    #: Its end, which is the beginning of the next
    ends_at: str


class SpendAlertsReachedItem(TypedDict):
    subject: Literal["cpu_hours", "ram_gib_hours", "spend_cap"]
    threshold_percent: int
    reached_at: str
    mailed_at: Union[str, None]


class SpendAlerts(TypedDict):
    organization_id: str
    #: Percent of the spend cap and of each allowance, of which people are told once in a billing period
    thresholds_percent: list[int]
    period: SpendAlertsPeriod
    #: In this billing period, the last first
    reached: list[SpendAlertsReachedItem]


class SpendAlertsRequest(TypedDict):
    #: Percent of the spend cap and of each allowance, of which people are told once in a billing period
    thresholds_percent: list[int]


class SpendCapLinesItem(TypedDict):
    allowance: Literal["cpu_hours", "ram_gib_hours"]
    units_over: float
    billed_units: int
    rate_minor: int
    amount_minor: int


class SpendCap(TypedDict):
    state: Literal["unavailable", "off", "paused", "within_allowance", "accruing", "warning", "reached"]
    cap_minor: Union[int, None]
    effective_cap_minor: Union[int, None]
    max_cap_minor: Union[int, None]
    charges_minor: int
    remaining_minor: Union[int, None]
    percent_of_cap: Union[float, None]
    lines: list[SpendCapLinesItem]
    projected_reached_at: Union[str, None]
    currency: Union[str, None]


class SpendPolicy(TypedDict):
    organization_id: str
    #: The plan has a price, and a rate for every allowance that ends
    overage_available: bool
    overage_enabled: bool
    #: paused: a payment of the plan is past due
    overage_state: Literal["unavailable", "off", "on", "paused"]
    spend_cap_minor: Union[int, None]
    spend_cap_min_minor: Union[int, None]
    spend_cap_max_minor: Union[int, None]
    rates: OverageRates
    currency: Union[str, None]
    #: Of the cap and of each allowance; `spend-alerts` changes them
    alert_thresholds_percent: list[int]
    #: What to send as If-Match; 0: nobody has decided
    version: int
    updated_at: Union[str, None]


class StartCommand(TypedDict):
    #: Unique among the commands and services of the version
    name: str
    argv: list[str]
    #: /home/user when absent
    cwd: NotRequired[str]
    #: user when absent
    user: NotRequired[str]
    env: NotRequired[dict[str, str]]
    timeout_seconds: NotRequired[int]


class Startup(TypedDict):
    state: Literal["pending", "running", "ready", "failed"]
    #: The start command or service that failed; while running the one that is waited for
    step: NotRequired[str]
    #: failed: why
    reason: NotRequired[Literal["startup_failed", "service_not_ready", "secrets_unavailable", "secret_not_available", "guest_feature_unavailable"]]
    exit_code: NotRequired[Union[int, None]]
    #: failed: the end of what it wrote
    output_tail: NotRequired[str]


class StepUpRequest(TypedDict):
    password: str


class SubscriptionCurrentPeriod(TypedDict):
    starts_at: str
    #: Its end, which is the beginning of the next
    ends_at: str


class Subscription(TypedDict):
    organization_id: str
    plan: Plan
    state: Literal["active", "past_due", "unpaid", "on_hold", "none"]
    refuses_starts: Union[Literal["no_plan", "limits_missing", "not_included", "payment_past_due", "unpaid", "operator_hold"], None]
    grace_until: Union[str, None]
    current_period: SubscriptionCurrentPeriod
    #: manual: an operator says what is paid; stripe: the plan was bought, and that service collects
    payment: Literal["manual", "stripe"]


class SuspendRequest(TypedDict):
    requested_at: str
    after_seconds: int
    #: The suspend takes effect at this moment at the earliest
    not_before: str


class SuspendWhenIdleResponse(TypedDict):
    workspace: Workspace
    operation: Union[Operation, None]
    suspend_request: Union[SuspendRequest, None]


class TarResult(TypedDict):
    path: str
    #: That the tar has
    entries: int
    #: Of the files in it, with their holes
    bytes: int
    #: The files and their names survive a power cut
    durable: bool


class Template(TypedDict):
    id: str
    slug: str
    organization_id: Union[str, None]
    display_name: Union[str, None]
    description: Union[str, None]
    latest_version: Union[int, None]
    created_at: str
    archived_at: Union[str, None]


class TemplateBuild(TypedDict):
    id: str
    kind: Literal["save_as_template", "draft", "recipe"]
    #: Of its operation
    state: Literal["queued", "capacity_pending", "running", "succeeded", "failed", "canceled"]
    state_reason: Union[str, None]
    operation_id: str
    organization_id: str
    project_id: str
    template_slug: str
    version: Union[int, None]
    #: Whether workspaces are opened with that version
    published: bool
    #: What looks like a secret and was not acknowledged: it keeps the version from being published by itself
    scan_findings: list[ScanFinding]
    error: Union[OperationError, None]
    created_at: str
    started_at: Union[str, None]
    completed_at: Union[str, None]


class TemplateBuildLog(TypedDict):
    #: Of the first byte of text
    offset: int
    #: Where to go on
    next_offset: int
    text: str
    #: Nothing comes after it
    complete: bool


class TemplateBuildRequest(TypedDict):
    recipe: NotRequired[Recipe]
    #: Instead of a recipe
    dockerfile: NotRequired[str]
    build_args: NotRequired[dict[str, str]]
    #: The tar that copy and COPY take files from
    upload_id: NotRequired[str]
    egress_ceiling: NotRequired[EgressPolicyRequest]
    #: Of the version
    description: NotRequired[str]
    #: Workspaces are opened with the version as soon as it is there
    auto_publish: NotRequired[bool]
    #: A person says it; a key has its own
    project_id: NotRequired[str]


class TemplateBuildStarted(TypedDict):
    operation: Operation
    build: TemplateBuild


class TemplateDefaults(TypedDict):
    cpu_millis: NotRequired[int]
    memory_mib: NotRequired[int]
    disk_gib: NotRequired[int]
    lifetime: NotRequired[Union[Literal["persistent"], Literal["session"]]]
    idle_policy: NotRequired[str]
    session_idle_seconds: NotRequired[int]
    #: For so long a machine that is unused and quiet is not parked, where that is longer than in its cell
    background_seconds: NotRequired[int]


class TemplateDraftBase(TypedDict):
    slug: str
    version: int


class TemplateDraft(TypedDict):
    id: str
    template_id: str
    template_slug: str
    organization_id: str
    project_id: str
    #: Where it is worked on, with all that a workspace has
    workspace_id: str
    #: The version that it was opened from
    base: TemplateDraftBase
    draft_base_version: Union[int, None]
    latest_version: Union[int, None]
    #: Somebody else has published a newer version: a publish is refused with draft_stale
    stale: bool
    created_at: str
    discarded_at: Union[str, None]


class TemplateDraftRequest(TypedDict):
    #: slug@version; omitted: the latest published version of the template
    base: NotRequired[str]
    project_id: NotRequired[str]
    #: Of a template that is made with it
    display_name: NotRequired[str]
    caps: NotRequired[Caps]
    #: Names the agent session; `default` when absent
    agent_label: NotRequired[str]
    #: Default: all that the principal may use. At least one: a token without any could call nothing, and `[]` is more often a slip
    tools: NotRequired[list[Literal["exec", "files", "pty", "process", "git", "browser"]]]
    inputs: NotRequired[dict[str, Any]]


class TemplateDraftStarted(TypedDict):
    draft: TemplateDraft
    workspace: Workspace
    operation: Union[Operation, None]
    cell_endpoint: Union[str, None]
    tool_token: Union[ToolToken, None]
    #: What the call asked for and the workspace does not have. Of one that exists already nothing of it is applied; an open applies
    #: its inputs, a test instance and a draft keep theirs. Of a new one `caps` stands here where one is above the limit of template
    #: or plan: `workspace.ceilings` says what it has
    ignored: NotRequired[list[Literal["template", "base", "caps", "inputs", "idle_policy", "background_seconds"]]]


class TemplateFile(TypedDict):
    #: Bytes that are not UTF-8 are shown escaped (`\xff`); a path with such a name cannot be asked for
    path: str
    #: Bytes that are not UTF-8 are shown escaped (`\xff`); a path with such a name cannot be asked for
    name: str
    type: Literal["file", "directory", "symlink", "other"]
    size_bytes: int
    #: Octal
    mode: str
    uid: int
    gid: int
    sha256: Union[str, None]
    target: Union[str, None]


class TemplateFileChange(TypedDict):
    #: Bytes that are not UTF-8 are shown escaped (`\xff`); a path with such a name cannot be asked for
    path: str
    change: Literal["added", "modified", "deleted"]
    before: Union[TemplateFile, None]
    after: Union[TemplateFile, None]


class TemplateFileChangeList(TypedDict):
    data: list[TemplateFileChange]
    next_cursor: Union[str, None]


class TemplateFileList(TypedDict):
    data: list[TemplateFile]
    next_cursor: Union[str, None]


class TemplateInput(TypedDict):
    #: secret: the secret of this name is bound to each workspace that may use it; an open says no value of it
    kind: NotRequired[Literal["text", "secret"]]
    #: An open without it is refused with input_required
    required: NotRequired[bool]
    default: NotRequired[str]
    #: false: start commands and services do not need it, and a warm machine may be without
    startup: NotRequired[bool]
    description: NotRequired[str]


class TemplateLanguage(TypedDict):
    name: str
    versions: list[str]
    default_version: str


class TemplateLanguageList(TypedDict):
    data: list[TemplateLanguage]
    next_cursor: Union[str, None]


class TemplateList(TypedDict):
    data: list[Template]
    next_cursor: Union[str, None]


class TemplatePackage(TypedDict):
    name: str
    #: That a build would install
    version: str
    description: str
    #: Without what it depends on
    installed_bytes: int


class TemplatePackageList(TypedDict):
    data: list[TemplatePackage]
    next_cursor: Union[str, None]


class TemplateSettingsDefaults(TypedDict):
    cpu_millis: int
    memory_mib: int
    disk_gib: int
    lifetime: NotRequired[Union[Literal["persistent"], Literal["session"]]]
    idle_policy: NotRequired[str]
    session_idle_seconds: NotRequired[int]
    #: For so long a machine that is unused and quiet is not parked, where that is longer than in its cell
    background_seconds: NotRequired[int]


class TemplateSettingsCeiling(TypedDict):
    cpu_millis: int
    memory_mib: int
    disk_gib: int


class TemplateSettings(TypedDict):
    #: Environment of every command
    env: dict[str, str]
    inputs: dict[str, TemplateInput]
    #: For an open that does not say otherwise
    defaults: TemplateSettingsDefaults
    #: No open gets more
    ceiling: TemplateSettingsCeiling
    start: NotRequired[list[StartCommand]]
    services: NotRequired[list[Service]]
    #: A machine is started up ahead without network, inputs and secrets, and saved; an open that gives nothing its start-up needs
    #: restores it
    warm: NotRequired[bool]
    #: What its files serve beyond commands and files
    guest_features: NotRequired[list[Literal["browser"]]]


class TemplateSettingsInputCeiling(TypedDict):
    cpu_millis: int
    memory_mib: int
    disk_gib: int


class TemplateSettingsInput(TypedDict):
    #: Environment of every command
    env: NotRequired[dict[str, str]]
    inputs: NotRequired[dict[str, TemplateInput]]
    start: NotRequired[list[StartCommand]]
    services: NotRequired[list[Service]]
    #: A machine is started up ahead without network, inputs and secrets, and saved; an open that gives nothing its start-up needs
    #: restores it
    warm: NotRequired[bool]
    #: What its files serve beyond commands and files
    guest_features: NotRequired[list[Literal["browser"]]]
    #: No open gets more
    ceiling: NotRequired[TemplateSettingsInputCeiling]
    defaults: NotRequired[TemplateDefaults]
    #: manual: workspaces keep the version that they were made from
    update_policy: NotRequired[Literal["manual", "automatic"]]


class TemplateUpload(TypedDict):
    id: str
    organization_id: str
    project_id: str
    size_bytes: int
    sha256: str
    #: Where the next part begins
    received_bytes: int
    #: complete: all of it is there, and has the digest
    state: Literal["receiving", "complete"]
    created_at: str
    #: It is gone then, where nothing is received or built with it before
    expires_at: str


class TemplateUploadRequest(TypedDict):
    #: At most 5368709120
    size_bytes: int
    #: Of all of it, in hex
    sha256: str
    project_id: NotRequired[str]


class TemplateVersion(TypedDict):
    id: str
    template_id: str
    slug: str
    organization_id: Union[str, None]
    version: int
    #: Of the workspaces that are made from it
    disk_layout: Literal["legacy", "layered"]
    #: SHA-256 of each file system image, the lowest first
    layers: list[str]
    settings: TemplateSettings
    egress: Union[EgressRules, None]
    description: Union[str, None]
    #: What looked like a secret when it was made, and was not acknowledged
    scan_findings: list[ScanFinding]
    warm: NotRequired[WarmVersion]
    created_at: str
    published_at: Union[str, None]
    archived_at: Union[str, None]


class TemplateVersionList(TypedDict):
    data: list[TemplateVersion]
    next_cursor: Union[str, None]


class TerminalInput(TypedDict):
    #: base64 of at most 65536 bytes
    data: str


class TerminalList(TypedDict):
    data: list[ListedTerminal]
    next_cursor: Union[str, None]


class TerminalSession(TypedDict):
    session_id: str
    argv: list[str]
    cwd: str
    user: str
    pid: Union[int, None]
    cols: int
    rows: int
    state: Literal["running", "exited", "failed_to_start", "lost"]
    exit_code: Union[int, None]
    term_signal: Union[str, None]
    started_at: Union[str, None]
    ended_at: Union[str, None]
    error: Union[str, None]
    output_bytes: int
    output_available_from: int


class TerminalSize(TypedDict):
    cols: int
    rows: int


class TerminalStart(TypedDict):
    session_id: NotRequired[str]
    #: The user's login shell when absent
    argv: NotRequired[list[str]]
    #: Absolute path, /home/user when absent
    cwd: NotRequired[str]
    env: NotRequired[dict[str, str]]
    user: NotRequired[str]
    cols: NotRequired[int]
    rows: NotRequired[int]
    secret_refs: NotRequired[list[str]]


class TestInstanceRequest(TypedDict):
    #: Keys that start with sf: are reserved
    key: NotRequired[str]
    caps: NotRequired[Caps]
    #: Names the agent session; `default` when absent
    agent_label: NotRequired[str]
    #: Default: all that the principal may use. At least one: a token without any could call nothing, and `[]` is more often a slip
    tools: NotRequired[list[Literal["exec", "files", "pty", "process", "git", "browser"]]]
    inputs: NotRequired[dict[str, Any]]
    project_id: NotRequired[str]


class ToolToken(TypedDict):
    token: str
    token_type: Literal["Bearer"]
    issued_at: str
    expires_at: str
    workspace_id: str
    agent_session_id: str
    ownership_epoch: int
    tools: list[Literal["exec", "files", "pty", "process", "git", "browser"]]
    audience: str
    kid: str
    cell_endpoint: str


class ToolTokenKeysKeysItem(TypedDict):
    kty: Literal["EC"]
    crv: Literal["P-256"]
    x: str
    y: str
    kid: str
    alg: Literal["ES256"]
    use: Literal["sig"]


class ToolTokenKeys(TypedDict):
    keys: list[ToolTokenKeysKeysItem]


class TotpStarted(TypedDict):
    #: Base32, for an authenticator without a camera
    secret: str
    #: For a QR code
    otpauth_url: str


class TreeRestored(TypedDict):
    #: The new revision, which is now the current one
    tree_revision: int
    #: Whose files it has
    restored_revision: int


class TreeRevisionMadeBy(TypedDict):
    call: Union[str, None]
    execution_id: Union[str, None]


class TreeRevision(TypedDict):
    tree_revision: int
    created_at: Union[str, None]
    entries: Union[int, None]
    bytes: Union[int, None]
    changes: Union[ChangeCounts, None]
    made_by: Union[TreeRevisionMadeBy, None]


class TreeRevisions(TypedDict):
    #: The current one first. `changes` counts against the revision before; null: nobody counted
    data: list[TreeRevision]
    next_cursor: Union[str, None]


class UsageAllowance(TypedDict):
    allowance: Literal["cpu_hours", "ram_gib_hours"]
    meter: Literal["cpu_seconds", "memory_gib_seconds"]
    unit: Literal["hours", "gib_hours"]
    #: overage: used up, and what is beyond is charged
    state: Literal["unlimited", "within", "overage", "exhausted"]
    #: In its unit
    used: float
    included: Union[float, None]
    used_meter_units: int
    included_meter_units: Union[int, None]
    #: Of these, what credits add: drawn in the period, or still to be drawn
    granted_meter_units: int


class UsageEstimatePeriod(TypedDict):
    starts_at: str
    #: Its end, which is the beginning of the next
    ends_at: str


class UsageEstimateAllowancesItem(TypedDict):
    allowance: Literal["cpu_hours", "ram_gib_hours"]
    used_meter_units: int
    #: At the end of the period
    estimated_meter_units: int
    #: Of these, what the workspace that was asked about adds
    workspace_meter_units: int
    included_meter_units: Union[int, None]
    #: Of these, what credits add
    granted_meter_units: int


class UsageEstimate(TypedDict):
    organization_id: str
    period: UsageEstimatePeriod
    #: The rest of the period is taken to be as what is over of it
    basis: Literal["average_so_far"]
    allowances: list[UsageEstimateAllowancesItem]
    price_minor: Union[int, None]
    #: Beyond the price of the plan, as far as the cap lets it come; 0 where overage is off
    overage_minor: int
    total_minor: Union[int, None]
    currency: Union[str, None]


class UsageGrant(TypedDict):
    id: str
    organization_id: str
    allowance: Literal["cpu_hours", "ram_gib_hours"]
    state: Literal["active", "used_up", "expired", "revoked"]
    #: In units of the allowance
    granted: float
    granted_meter_units: int
    #: Taken for what was used beyond what the plan includes, in all billing periods
    drawn_meter_units: int
    #: What can still be drawn; 0 of one whose time is over
    remaining_meter_units: int
    note: str
    created_at: str
    expires_at: Union[str, None]


class UsageGrantList(TypedDict):
    data: list[UsageGrant]
    next_cursor: Union[str, None]


class UsageMeasurement(TypedDict):
    measured_through: Union[str, None]
    #: Hours that ended by then are entries of the ledger; later ones may still grow
    final_through: str


class UsageSeriesSeriesItemPointsItem(TypedDict):
    #: Beginning of the hour or day
    at: str
    units: int


class UsageSeriesSeriesItem(TypedDict):
    meter: Literal["cpu_seconds", "memory_gib_seconds", "storage_gib_seconds", "egress_bytes", "ingress_bytes", "volume_storage_gib_seconds"]
    #: One for each hour or day, the oldest first; 0 where nothing was used
    points: list[UsageSeriesSeriesItemPointsItem]
    total: int


class UsageSeriesTotals(TypedDict):
    cpu_seconds: NotRequired[int]
    memory_gib_seconds: NotRequired[int]
    storage_gib_seconds: NotRequired[int]
    egress_bytes: NotRequired[int]
    ingress_bytes: NotRequired[int]
    volume_storage_gib_seconds: NotRequired[int]


UsageSeries = TypedDict(
    "UsageSeries",
    {
        #: Beginning of the first hour or day
        "from": "str",
        #: Beginning of the last hour or day, which is part of the series
        "to": "str",
        "granularity": "Literal[\"hour\", \"day\"]",
        "series": "list[UsageSeriesSeriesItem]",
        #: The same totals by meter
        "totals": "UsageSeriesTotals",
        "measurement": "UsageMeasurement",
    },
)


class UsageSummaryPeriod(TypedDict):
    starts_at: str
    #: Its end, which is the beginning of the next
    ends_at: str


class UsageSummary(TypedDict):
    organization_id: str
    period: UsageSummaryPeriod
    usage: UsageUnits
    allowances: list[UsageAllowance]
    #: Opens, resumes and forks are refused with 402 allowance_exhausted
    allowance_exhausted: bool
    exhausted_reason: Union[Literal["allowance_used", "overage_paused", "spend_cap_reached"], None]
    spend_cap: SpendCap
    measurement: UsageMeasurement


class UsageUnits(TypedDict):
    cpu_seconds: int
    memory_gib_seconds: int
    storage_gib_seconds: int
    egress_bytes: int
    ingress_bytes: int
    volume_storage_gib_seconds: int


class Volume(TypedDict):
    id: str
    organization_id: str
    #: The project that it belongs to
    project_id: str
    name: str
    #: What it may hold, the file system's own records among it
    quota_gib: int
    #: Workspaces of every project of the organization can have it
    org_shared: bool
    state: Literal["creating", "available", "deleting", "deleted", "failed"]
    #: Those to workspaces that you may know of
    attachments: list[VolumeAttachment]
    created_at: str
    updated_at: str
    deleted_at: Union[str, None]


class VolumeAndOperation(TypedDict):
    volume: Volume
    operation: Operation


class VolumeAttachRequest(TypedDict):
    volume_id: str
    #: Where the workspace sees it: an absolute path without links, . and .., which is made where it is missing
    mount_path: str
    #: Default read_write
    mode: NotRequired[Literal["read_write", "read_only"]]


class VolumeAttachment(TypedDict):
    volume_id: str
    workspace_id: str
    mount_path: str
    mode: Literal["read_write", "read_only"]
    #: attached: the workspace has it, or has it as soon as it runs
    state: Literal["attaching", "attached", "detaching"]
    created_at: str
    updated_at: str


class VolumeAttachmentAndOperation(TypedDict):
    attachment: VolumeAttachment
    operation: Operation


class VolumeAttachmentList(TypedDict):
    data: list[VolumeAttachment]
    next_cursor: Union[str, None]


class VolumeCreateRequest(TypedDict):
    #: No other volume of the project has it, but those that are deleted
    name: str
    quota_gib: int
    #: Only owners and admins may say true. Default false
    org_shared: NotRequired[bool]


class VolumeList(TypedDict):
    data: list[Volume]
    next_cursor: Union[str, None]


class WakeHint(TypedDict):
    residency: Literal["resident", "frozen", "hibernated", "restoring"]


class WarmVersionError(TypedDict):
    step: Union[str, None]
    reason: Literal["startup_failed", "service_not_ready", "secrets_unavailable", "secret_not_available", "guest_feature_unavailable", "timed_out", "no_answer", "machine_failed"]
    exit_code: Union[int, None]
    output_tail: str


class WarmVersion(TypedDict):
    #: none: the next open has one made. failed: opens are cold, and an hour later it is tried again
    state: Literal["none", "making", "ready", "failed"]
    error: Union[WarmVersionError, None]


class WorkspaceTemplate(TypedDict):
    slug: str
    version: int


class Workspace(TypedDict):
    id: str
    organization_id: str
    project_id: str
    #: The caller's own name of it, unique in the organization
    key: str
    #: What it is
    observed_state: Literal["creating", "starting", "running", "suspending", "suspended", "resuming", "forking", "stopping", "failed", "deleting", "deleted"]
    #: What it was last asked to be
    desired_state: Literal["running", "suspended", "deleted"]
    #: Observed and desired state are running, start-up is ready where there is one, and the operation that started it has ended
    ready: bool
    #: The version that it was made from; a reopen does not change it
    template: WorkspaceTemplate
    active_operation: Union[Operation, None]
    pending_reason: Union[str, None]
    grants: Union[Resources, None]
    ceilings: Resources
    caps: Caps
    #: session: discarded when it is closed or has been idle; never changes
    lifetime: Literal["persistent", "session"]
    purpose: Literal["standard", "template_draft", "template_test"]
    #: layered: its changes lie above the template's files and can be wiped by a reset
    disk_layout: Literal["legacy", "layered"]
    origin: Union[Origin, None]
    idle_timeout_seconds: Union[int, None]
    ended_reason: Union[str, None]
    startup: Union[Startup, None]
    #: never changes
    mode: Literal["processful", "file_first"]
    tree_revision: Union[int, None]
    #: Rises with every suspend, start, resume and move; tool tokens carry it
    ownership_epoch: int
    cell_endpoint: Union[str, None]
    idle: Idle
    created_at: str
    updated_at: str
    deleted_at: Union[str, None]


class WorkspaceEgressPolicyEnforcement(TypedDict):
    #: not_enforced: it has no machine, or its host has not acknowledged any policy of this ownership epoch. pending: the host
    #: enforces an earlier policy of this epoch. failed: the host could not put the policy in force, and lets nothing more out than
    #: before
    state: Literal["not_enforced", "pending", "enforced", "failed"]
    acknowledged_at: Union[str, None]


class WorkspaceEgressPolicy(TypedDict):
    workspace_id: str
    #: allow_all: all that is public. allowlist: what rules and cidrs name, and nothing without them. deny_all: nothing
    mode: Literal["allow_all", "allowlist", "deny_all"]
    #: A set, as cidrs and ports are: their order means nothing, and may be another in each answer
    rules: list[EgressRule]
    cidrs: list[str]
    #: Whose policy it is: the workspace's own override, its project's, or the platform's
    source: Literal["workspace", "project", "platform"]
    #: Of the workspace's overrides, the clearing of one counted; 0: there never was one. The value of If-Match, and the ETag
    version: int
    #: Of its project's policy
    project_version: int
    template_egress: Union[EgressRules, None]
    effective_policy: EgressRules
    enforcement: WorkspaceEgressPolicyEnforcement
    updated_at: Union[str, None]


WorkspaceInputs: TypeAlias = "dict[str, str]"


class WorkspaceList(TypedDict):
    data: list[Workspace]
    next_cursor: Union[str, None]


class WorkspaceOnly(TypedDict):
    workspace: Workspace


class WorkspaceSecretsSecretsItem(TypedDict):
    name: str
    #: deleted: the template version requires a secret of this name, and there is none any more
    status: Literal["available", "not_allowed", "deleted"]


class WorkspaceSecrets(TypedDict):
    secrets: list[WorkspaceSecretsSecretsItem]


class WorkspaceSecretsRequest(TypedDict):
    names: list[str]


class WriteResult(TypedDict):
    path: str
    bytes_written: int
    sha256: str
    #: The bytes and the name survive a power cut
    durable: bool
    revision: NotRequired[str]
