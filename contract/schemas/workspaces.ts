import Type, { type Static } from 'typebox'
import { STARTUP_REASONS } from '../errors.ts'
import { LIMITS } from '../limits.ts'
import { OBSERVED_STATES } from '../states/machine.ts'
import { Caps, List, Nullable, PageQuery, ResourcesView, strict, Text, Timestamp, Uuid, Enum } from './common.ts'
import { Operation } from './operations.ts'
import { AgentLabel, Tools, ToolToken } from './tool-tokens.ts'

export const DESIRED_STATES = ['running', 'suspended', 'deleted'] as const
export const LIFETIMES = ['persistent', 'session'] as const
export const PURPOSES = ['standard', 'template_draft', 'template_test'] as const
export const MODES = ['processful', 'file_first'] as const
export const DISK_LAYOUTS = ['legacy', 'layered'] as const
export type Mode = (typeof MODES)[number]

/** See the specification (App, "Suspend request"). */
export const SuspendRequest = Type.Object(
  {
    requested_at: Timestamp(),
    after_seconds: Type.Integer(),
    not_before: Timestamp('The suspend takes effect at this moment at the earliest'),
  },
  { title: 'SuspendRequest' },
)
export type SuspendRequest = Static<typeof SuspendRequest>

export const IDLE_BASES = ['default', 'fixed', 'learned', 'session', 'never'] as const

/** Activity is stored with a delay of seconds. */
export const RecentActivity = Type.Object({
  active_at: Timestamp('Of any kind'),
  tool_call_at: Nullable(Timestamp()),
  busy_until: Nullable(Timestamp('Until when commands count, or when the last one was seen to have ended')),
  keepalive_until: Nullable(Timestamp()),
})

export const IDLE_ENDS = ['policy', 'request'] as const

export const Idle = Type.Object(
  {
    policy: Type.String({ description: '`adaptive`, `never` or `fixed:<seconds>`: the one that applies' }),
    timeout_seconds: Nullable(Type.Integer({ description: 'Idle seconds after which it is suspended, a session ended; null: never' })),
    basis: Enum(IDLE_BASES, { description: 'Where the timeout comes from' }),
    next_eligible_at: Nullable(Timestamp('When it may be suspended if nothing happens until then; null when not running or never')),
    next_eligible_by: Nullable(Enum(IDLE_ENDS, { description: 'Which comes first: the time of its policy or of the request' })),
    suspend_request: Nullable(SuspendRequest),
    recent_activity: RecentActivity,
    background_seconds: Nullable(
      Type.Integer({ description: 'For so long its machine is not parked, unused and quiet; null: as long as others of its cell' }),
    ),
    failed_suspends: Type.Integer({ description: 'Idle suspends that failed since one succeeded; each doubles the wait for the next' }),
  },
  { title: 'Idle' },
)

/** See the specification (App, "Workspace (view)"). */
export const Startup = Type.Object(
  {
    state: Enum(['pending', 'running', 'ready', 'failed']),
    step: Type.Optional(Type.String({ description: 'The start command or service that failed; while running the one that is waited for' })),
    reason: Type.Optional(Enum(STARTUP_REASONS, { description: 'failed: why' })),
    exit_code: Type.Optional(Nullable(Type.Integer({ description: 'failed: how it ended; null when it did not end by itself' }))),
    output_tail: Type.Optional(Type.String({ description: 'failed: the end of what it wrote' })),
  },
  { title: 'Startup', additionalProperties: true },
)

export const Origin = Type.Union(
  [
    Type.Object({ kind: Type.Literal('template_version'), template_id: Uuid(), version: Type.Integer() }, { additionalProperties: true }),
    Type.Object(
      {
        kind: Type.Literal('draft_state'),
        checkpoint_id: Uuid(),
        state_id: Type.Optional(Uuid('Of the draft')),
        template_id: Type.Optional(Uuid('Whose draft it was')),
      },
      { additionalProperties: true },
    ),
  ],
  { title: 'Origin' },
)
export type Origin = Static<typeof Origin>

/** See the specification (App, "Workspace (view)"). */
export const Workspace = Type.Object(
  {
    id: Uuid(),
    organization_id: Uuid(),
    project_id: Uuid(),
    key: Type.String({ description: "The caller's own name of it, unique in the organization" }),
    observed_state: Enum(OBSERVED_STATES, { description: 'What it is' }),
    desired_state: Enum(DESIRED_STATES, { description: 'What it was last asked to be' }),
    ready: Type.Boolean({
      description:
        'Observed and desired state are running, start-up is ready where there is one, and the operation that started it has ended',
    }),
    template: Type.Object(
      { slug: Type.String(), version: Type.Integer() },
      { description: 'The version that it was made from; a reopen does not change it' },
    ),
    active_operation: Nullable(Operation),
    pending_reason: Nullable(Type.String({ description: 'Why a start waits, such as no_ready_host; null when none does' })),
    grants: Nullable(ResourcesView),
    ceilings: ResourcesView,
    caps: Caps,
    lifetime: Enum(LIFETIMES, { description: 'session: discarded when it is closed or has been idle; never changes' }),
    purpose: Enum(PURPOSES),
    disk_layout: Enum(DISK_LAYOUTS, {
      description: "layered: its changes lie above the template's files and can be wiped by a reset",
    }),
    origin: Nullable(Origin),
    idle_timeout_seconds: Nullable(Type.Integer({ description: 'idle.timeout_seconds' })),
    ended_reason: Nullable(
      Type.String({
        description:
          'Why it ended by itself or by a close: closed, idle_timeout, fork_failed, draft_discarded, adopted; null after a DELETE',
      }),
    ),
    startup: Nullable(Startup),
    mode: Enum(MODES, { description: 'never changes' }),
    tree_revision: Nullable(Type.Integer({ description: 'file_first: revision of its tree; null for processful' })),
    ownership_epoch: Type.Integer({ description: 'Rises with every suspend, start, resume and move; tool tokens carry it' }),
    cell_endpoint: Nullable(Type.String({ description: 'Where its tools are served; null until it has a place' })),
    idle: Idle,
    created_at: Timestamp(),
    updated_at: Timestamp(),
    deleted_at: Nullable(Timestamp('Since when it is a tombstone, which stays readable for 30 days')),
  },
  { title: 'Workspace' },
)
export type Workspace = Static<typeof Workspace>
export const WorkspaceList = List(Workspace, 'WorkspaceList')

export const WorkspaceInputs = Type.Unsafe<Record<string, string>>({
  type: 'object',
  additionalProperties: { type: 'string' },
  title: 'WorkspaceInputs',
})

const filters = {
  ...PageQuery,
  project_id: Type.Optional(Uuid()),
  state: Type.Optional(Enum(OBSERVED_STATES)),
  desired_state: Type.Optional(Enum(DESIRED_STATES)),
  key_prefix: Type.Optional(Text({ minLength: 0, maxLength: LIMITS.workspace.key_characters_max, description: 'Only keys that start so' })),
  include_deleted: Type.Optional(Type.Boolean({ default: false, description: 'implied by state=deleted and desired_state=deleted' })),
  lifetime: Type.Optional(
    Type.Unsafe<'persistent' | 'session' | 'any'>({ type: 'string', enum: [...LIFETIMES, 'any'], default: 'persistent' }),
  ),
  purpose: Type.Optional(
    Type.Unsafe<(typeof PURPOSES)[number] | 'any'>({ type: 'string', enum: [...PURPOSES, 'any'], default: 'standard' }),
  ),
}
export const WorkspaceQuery = Type.Object({ ...filters, organization_id: Type.Optional(Uuid()) })
export type WorkspaceQuery = Static<typeof WorkspaceQuery>
export const OrganizationWorkspaceQuery = Type.Object(filters)

/** The schema accepts all inputs, because the rules of inputs refuse bad ones by name (422 with a reason; App, "Open rules" 6). */
export const GivenInputs = Type.Unsafe<Record<string, unknown>>({
  type: 'object',
  additionalProperties: { description: `Text of at most ${LIMITS.input.bytes_max} bytes without CR, LF and NUL` },
})

export const WorkspaceKey = Text({
  minLength: 1,
  maxLength: LIMITS.workspace.key_characters_max,
  description: 'Keys that start with sf: are reserved',
})
const IdlePolicy = Type.String({
  pattern: '^(adaptive|never|fixed:[1-9][0-9]{1,5})$',
  description: `adaptive, never or fixed:<${LIMITS.idle.fixed_seconds_min}..${LIMITS.idle.fixed_seconds_max}>`,
})

export const OpenRequest = Type.Object(
  {
    key: WorkspaceKey,
    template: Text({
      minLength: 1,
      maxLength: 200,
      description:
        "Slug; a new workspace uses the template's latest published version. slug@version: it uses this one, published and not archived",
    }),
    caps: Type.Optional(Caps),
    project_id: Type.Optional(Uuid()),
    agent_label: Type.Optional(AgentLabel),
    tools: Type.Optional(Tools),
    secrets: Type.Optional(
      Type.Array(Text({ minLength: 1, maxLength: 200 }), { maxItems: LIMITS.secret.per_workspace_max, uniqueItems: true }),
    ),
    inputs: Type.Optional(GivenInputs),
    lifetime: Type.Optional(Enum(LIFETIMES)),
    idle_policy: Type.Optional(IdlePolicy),
    background_seconds: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: LIMITS.idle.background_seconds_max,
        description:
          'For work in the background: for so long after its last use the machine of a new workspace is not parked though its processes use neither processor nor network. Never shorter than the cell waits with others; omitted: what the template says',
      }),
    ),
    mode: Type.Optional(Enum(MODES)),
  },
  { ...strict, title: 'OpenRequest' },
)
export type OpenRequest = Static<typeof OpenRequest>

/** Fields of an open that have no effect on an existing workspace. */
export const IGNORABLE = ['template', 'base', 'caps', 'inputs', 'idle_policy', 'background_seconds'] as const
export type Ignorable = (typeof IGNORABLE)[number]

export const OpenResponse = Type.Object(
  {
    workspace: Workspace,
    operation: Nullable(Operation),
    cell_endpoint: Nullable(Type.String()),
    tool_token: Nullable(ToolToken),
    ignored: Type.Optional(
      Type.Array(Enum(IGNORABLE), {
        description:
          'What the call asked for and the workspace does not have. Of one that exists already nothing of it is applied; an open applies its inputs, a test instance and a draft keep theirs. Of a new one `caps` stands here where one is above the limit of template or plan: `workspace.ceilings` says what it has',
      }),
    ),
  },
  { title: 'OpenResponse' },
)

export const ResumeRequest = Type.Object({ agent_label: Type.Optional(AgentLabel), tools: Type.Optional(Tools) }, strict)

export const ForkRequest = Type.Object(
  { key: WorkspaceKey, caps: Type.Optional(Caps), lifetime: Type.Optional(Enum(LIFETIMES)) },
  { ...strict, title: 'ForkRequest' },
)

export const ForkTreeRequest = Type.Object(
  {
    key: WorkspaceKey,
    tree_revision: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: Number.MAX_SAFE_INTEGER,
        description: 'A revision that is kept; the current one where it is not said',
      }),
    ),
  },
  { ...strict, title: 'ForkTreeRequest' },
)

export const WorkspaceOnly = Type.Object({ workspace: Workspace }, { title: 'WorkspaceOnly' })

export const OperationAndWorkspace = Type.Object({ operation: Operation, workspace: Workspace }, { title: 'OperationAndWorkspace' })

export const IdlePolicyRequest = Type.Object({ idle_policy: Nullable(IdlePolicy) }, strict)

export const SuspendWhenIdleRequest = Type.Object(
  { after_seconds: Type.Integer({ minimum: LIMITS.idle.suspend_after_seconds_min, maximum: LIMITS.idle.suspend_after_seconds_max }) },
  strict,
)

export const SuspendWhenIdleResponse = Type.Object(
  { workspace: Workspace, operation: Nullable(Operation), suspend_request: Nullable(SuspendRequest) },
  { title: 'SuspendWhenIdleResponse' },
)
