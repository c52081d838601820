import Type, { type Static, type TSchema } from 'typebox'
import { OPERATION_KINDS } from './states/operation.ts'
import { type APP_REASONS, type AppCode, type CELL_REASONS, type CellCode, MEMORY_REFUSALS, type ReasonIn, type Surface } from './errors.ts'
import { DISK_LAYOUTS, LIFETIMES, MODES } from './schemas/workspaces.ts'
import { EGRESS_MODES } from './egress/policy.ts'
import { EgressRules } from './schemas/egress.ts'
import { Issue } from './schemas/error.ts'
import { Nullable, Timestamp, Uuid, Enum } from './schemas/common.ts'
import { ATTACHMENT_MODES, ATTACHMENT_STATES } from './states/volume.ts'
import { TOOLS } from './tools.ts'

const { Optional, String: Text, Integer, Array: List } = Type
const names = Optional(List(Text(), { description: 'Those that are refused' }))
const name = Optional(Text({ description: 'Of the secret whose name is a variable of another origin' }))
const field = Optional(Text({ description: 'The property, parameter or header that is refused' }))
const issues = Optional(List(Issue))
const tools = () => List(Enum(TOOLS))
const max_bytes = Optional(Integer({ description: 'What it may have at most' }))
const ACTIVE = {
  active_operation_id: Optional(Uuid()),
  active_operation_kind: Optional(Enum(OPERATION_KINDS)),
}
const ALLOWANCE = {
  allowance: Enum(['cpu_hours', 'ram_gib_hours']),
  meter: Enum(['cpu_seconds', 'memory_gib_seconds']),
  unit: Text(),
  used: Type.Number(),
  included: Type.Number(),
  used_meter_units: Type.Number(),
  included_meter_units: Type.Number(),
}
const SPEND_CAP = Type.Object({
  cap_minor: Nullable(Integer()),
  effective_cap_minor: Nullable(Integer()),
  charges_minor: Integer(),
  currency: Text(),
})
const STARTS = {
  entitlement_required: { plan: Optional(Text()) },
  'entitlement_required/limits_missing': { missing: List(Text()) },
  'entitlement_required/payment_past_due': { grace_until: Nullable(Timestamp()) },
  allowance_exhausted: {
    ...ALLOWANCE,
    exhausted: List(Type.Object(ALLOWANCE), { description: 'Each allowance that is used up' }),
    resets_at: Nullable(Text({ description: 'The end of the billing period' })),
    plan: Text(),
    spend_cap: Nullable(SPEND_CAP),
  },
}
/** Reported when the agent's answer was lost, because the session may have started. */
const started = { session_id: Optional(Text({ description: 'Of the command or terminal that was to be started' })) }
const mode = Optional(Enum(MODES))
const OTHER_MODE = { mode, operation: Optional(Text({ description: 'What the workspace does not serve' })) }

const ATTACHED = Type.Object({
  workspace_id: Uuid(),
  mount_path: Text(),
  mode: Enum(ATTACHMENT_MODES),
  state: Enum(ATTACHMENT_STATES),
})

const STDIN = { stdin_offset: Optional(Integer({ description: 'How many bytes were taken: what comes next has this offset' })) }
const PATH = { path: Optional(Text()) }
const TREE_ROOT = { tree_root: Text({ description: 'Below which all paths of a file-first workspace lie' }) }

export type Details = Readonly<Record<string, TSchema>>

/**
 * Schemas of `details`, by code and by `code/reason`; an answer combines both. Every field is optional. Codes that are absent have no
 * details.
 */
export const DETAILS = {
  app: {
    bad_request: { field, issues },
    validation_failed: { field, issues },
    not_found: { tree_revision: Optional(Integer({ description: 'That is asked for, and not kept' })) },
    'not_found/version_not_found': { latest_version: Optional(Integer({ description: 'The newest of the template that is published' })) },
    forbidden: { denied_tools: Optional(tools()), permitted_tools: Optional(tools()) },
    quota_exceeded: {
      limit: Text({ description: 'One that `entitlements` names is of the plan. Any other is the service’s own, and no plan raises it' }),
      limit_value: Integer(),
      current: Integer(),
    },
    payload_too_large: { max_bytes },
    rate_limited: { retry_after_seconds: Optional(Integer()) },
    ...STARTS,
    'conflict/organization_ownership': { organization_ids: List(Uuid(), { description: 'Those that would have no owner' }) },
    'conflict/operation_in_progress': ACTIVE,
    'conflict/workspace_not_running': ACTIVE,
    'conflict/not_supported_for_mode': OTHER_MODE,
    'conflict/mode_mismatch': { mode: Enum(MODES), requested_mode: Enum(MODES) },
    'conflict/layout_unsupported': { disk_layouts: List(Enum(DISK_LAYOUTS), { description: 'That the template version has' }) },
    'conflict/lifetime_mismatch': { lifetime: Enum(LIFETIMES), requested_lifetime: Enum(LIFETIMES) },
    'conflict/key_in_use': { key: Text() },
    'conflict/draft_exists': { workspace_id: Uuid() },
    'conflict/draft_stale': {
      latest_version: Integer(),
      draft_base_version: Nullable(Integer({ description: 'null: it knows no version of its template' })),
    },
    'conflict/build_in_progress': { build_id: Uuid() },
    'conflict/volume_attached': { attachments: List(ATTACHED) },
    'conflict/name_in_use': { name: Text() },
    'conflict/mount_path_conflict': { mount_path: Text({ description: 'Of the other volume' }), volume_id: Uuid() },
    'conflict/not_running': { checkpoint_id: Optional(Uuid()) },
    'conflict/version_mismatch': { current_version: Integer({ description: '0: nobody has set one' }) },
    'not_found/path_not_found': PATH,
    'validation_failed/egress_widening': {
      template_egress: EgressRules,
      outside: List(
        Type.Object({
          path: Text({ description: 'In the policy that was refused' }),
          mode: Optional(Enum(EGRESS_MODES)),
          host: Optional(Text()),
          ports: Optional(List(Integer())),
          cidr: Optional(Text()),
        }),
        { description: "What the template's ceiling does not let out" },
      ),
    },
    'validation_failed/not_supported_for_mode': { mode },
    'validation_failed/secret_not_available': { names },
    'validation_failed/env_collision': { name },
    'validation_failed/too_large': { max_bytes },
    'validation_failed/upload_too_large': { max_bytes },
    'validation_failed/spend_cap_below_minimum': { min_minor: Integer() },
    'validation_failed/spend_cap_above_plan_price': { max_minor: Integer() },
    'validation_failed/spend_cap_below_charges': { charges_minor: Integer() },
    'validation_failed/input_required': { names, kind: Optional(Enum(['secret'], { description: 'Those that are named are secrets' })) },
    'validation_failed/input_unknown': { names },
    'validation_failed/input_invalid': { names },
  },
  cell: {
    ...STARTS,
    bad_request: { field, issues },
    validation_failed: { field, issues },
    forbidden: { tool: Optional(Enum(TOOLS)) },
    'forbidden/secret_not_available': { names },
    'validation_failed/env_collision': { name },
    'conflict/not_supported_for_mode': OTHER_MODE,
    'validation_failed/not_supported_for_mode': OTHER_MODE,
    'conflict/output_expired': { available_from: Optional(Integer({ description: 'The first offset that is still kept' })) },
    'conflict/stdin_gap': STDIN,
    'conflict/stdin_closed': STDIN,
    'conflict/execution_id_reused': { execution_id: Text() },
    'conflict/tree_revision_mismatch': { current_tree_revision: Integer() },
    'not_found/outside_tree_root': TREE_ROOT,
    'validation_failed/outside_tree_root': TREE_ROOT,
    not_found: { tree_revision: Optional(Integer({ description: 'That is asked for, and not kept' })) },
    'not_found/path_not_found': PATH,
    'conflict/not_a_directory': PATH,
    'conflict/not_a_file': PATH,
    'conflict/already_exists': PATH,
    'conflict/not_empty': PATH,
    'conflict/not_permitted': PATH,
    'conflict/path_busy': PATH,
    'validation_failed/invalid_path': PATH,
    'validation_failed/patch_invalid': { index: Optional(Integer({ description: 'Of the edit, from 0' })) },
    'conflict/revision_mismatch': { current_revision: Optional(Text({ description: 'Absent where there is no file' })) },
    'validation_failed/edit_not_found': { index: Optional(Integer({ description: 'Of the edit, from 0' })) },
    'validation_failed/edit_ambiguous': { index: Optional(Integer({ description: 'Of the edit, from 0' })) },
    'validation_failed/edit_not_text': { index: Optional(Integer({ description: 'Of the edit, from 0' })) },
    workspace_busy: {
      operation_kind: Optional(Enum(OPERATION_KINDS)),
      tool_gate: Optional(Enum(['read_only', 'closed'])),
    },
    'workspace_busy/execution_in_progress': { execution_id: Text({ description: 'Of the one that runs' }) },
    timeout: started,
    dependency_unavailable: started,
    'conflict/operation_interrupted': started,
    'conflict/guest_feature_unavailable': { feature: Optional(Text()) },
    payload_too_large: { max_bytes },
    range_not_satisfiable: { size: Optional(Integer({ description: 'Bytes of the file' })) },
    rate_limited: { retry_after_seconds: Optional(Integer()) },
    'service_unavailable/wake_failed': {
      memory_refused: Optional(Enum(MEMORY_REFUSALS)),
      checkpoint_id: Optional(Uuid()),
      without_memory: Optional(Type.Boolean({ description: 'Whether its disk can be started without the memory' })),
    },
  },
} as const satisfies Readonly<Record<Surface, Readonly<Record<string, Details>>>>

type Declared = typeof DETAILS
type SchemasAt<S extends Surface, Name> = Name extends keyof Declared[S] ? Declared[S][Name] : unknown
type SchemasOf<S extends Surface, C extends string, R> = SchemasAt<S, C> & (R extends string ? SchemasAt<S, `${C}/${R}`> : unknown)
/** A code without a schema permits no field. */
type DetailsIn<Schemas> = unknown extends Schemas
  ? Readonly<Record<string, never>>
  : Schemas extends Details
    ? Readonly<Static<Type.TObject<Schemas>>>
    : never
type OfApp<C, R> = C extends AppCode
  ? R extends ReasonIn<typeof APP_REASONS, C> | null
    ? DetailsIn<SchemasOf<'app', C, R>>
    : never
  : never
type OfCell<C, R> = C extends CellCode
  ? R extends ReasonIn<typeof CELL_REASONS, C> | null
    ? DetailsIn<SchemasOf<'cell', C, R>>
    : never
  : never
/** Details of a code on any surface. */
export type DetailsOf<C extends AppCode | CellCode, R> = R extends unknown ? OfApp<C, R> | OfCell<C, R> : never

/** An answer may have fields that no schema lists. */
export function detailsOf(surface: Surface, code: string, reason: string | null): Details {
  const of_surface: Readonly<Record<string, Details>> = DETAILS[surface]
  return { ...of_surface[code], ...(reason === null ? {} : of_surface[`${code}/${reason}`]) }
}
