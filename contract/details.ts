import Type, { type TSchema } from 'typebox'
import { OPERATION_KINDS } from './states/operation.ts'
import { MEMORY_REFUSALS, type Surface } from './errors.ts'
import { DISK_LAYOUTS, LIFETIMES, MODES } from './schemas/workspaces.ts'
import { Issue } from './schemas/error.ts'
import { Nullable, Timestamp, Uuid, Word } from './schemas/common.ts'
import { TOOLS } from './tools.ts'

const { Optional, String: Text, Integer, Array: List } = Type
const names = Optional(List(Text(), { description: 'Those that are refused' }))
const field = Optional(Text({ description: 'The property, parameter or header that is refused' }))
const issues = Optional(List(Issue))
const tools = () => List(Word(TOOLS))
const max_bytes = Optional(Integer({ description: 'What it may have at most' }))
const ACTIVE = {
  active_operation_id: Optional(Uuid()),
  active_operation_kind: Optional(Word(OPERATION_KINDS)),
}
const mode = Optional(Word(MODES))
const OTHER_MODE = { mode, operation: Optional(Text({ description: 'What the workspace does not serve' })) }

const TREE_ROOT = { tree_root: Text({ description: 'Below which all paths of a file-first workspace lie' }) }

type Details = Readonly<Record<string, TSchema>>

/**
 * What `details` say beside `reason`, by code and by `code/reason`: an answer has those of both. Each is there where it is known. A code that
 * is absent here says nothing but its reason.
 */
export const DETAILS: Readonly<Record<Surface, Readonly<Record<string, Details>>>> = {
  app: {
    bad_request: { field, issues },
    validation_failed: { field, issues },
    forbidden: { denied_tools: Optional(tools()), permitted_tools: Optional(tools()) },
    quota_exceeded: { limit: Text(), limit_value: Integer(), current: Integer() },
    payload_too_large: { max_bytes },
    rate_limited: { retry_after_seconds: Optional(Integer()) },
    entitlement_required: { plan: Optional(Text()) },
    'entitlement_required/limits_missing': { missing: List(Text()) },
    'entitlement_required/payment_past_due': { grace_until: Nullable(Timestamp()) },
    allowance_exhausted: {
      allowance: Word(['cpu_hours', 'ram_gib_hours']),
      meter: Word(['cpu_seconds', 'memory_gib_seconds']),
      unit: Text(),
      used: Type.Number(),
      included: Type.Number(),
      used_meter_units: Type.Number(),
      included_meter_units: Type.Number(),
      exhausted: List(Type.Unknown()),
    },
    'conflict/operation_in_progress': ACTIVE,
    'conflict/workspace_not_running': ACTIVE,
    'conflict/mode_mismatch': { mode: Word(MODES), requested_mode: Word(MODES) },
    'conflict/layout_unsupported': { disk_layouts: List(Word(DISK_LAYOUTS), { description: 'That the template version has' }) },
    'conflict/lifetime_mismatch': { lifetime: Word(LIFETIMES), requested_lifetime: Word(LIFETIMES) },
    'conflict/key_in_use': { key: Text() },
    'conflict/not_running': { checkpoint_id: Optional(Uuid()) },
    'validation_failed/not_supported_for_mode': { mode },
    'validation_failed/secret_not_available': { names },
    'validation_failed/input_required': { names },
    'validation_failed/input_unknown': { names },
    'validation_failed/input_invalid': { names },
  },
  cell: {
    bad_request: { field, issues },
    validation_failed: { field, issues },
    forbidden: { tool: Optional(Word(TOOLS)) },
    'forbidden/secret_not_available': { names },
    'conflict/not_supported_for_mode': OTHER_MODE,
    'validation_failed/not_supported_for_mode': OTHER_MODE,
    'conflict/output_expired': { available_from: Optional(Integer({ description: 'The first offset that is still kept' })) },
    'conflict/tree_revision_mismatch': { current_tree_revision: Integer() },
    'not_found/outside_tree_root': TREE_ROOT,
    'validation_failed/outside_tree_root': TREE_ROOT,
    'conflict/revision_mismatch': { current_revision: Optional(Text({ description: 'Absent where there is no file' })) },
    'validation_failed/edit_not_found': { index: Optional(Integer({ description: 'Of the edit, from 0' })) },
    'validation_failed/edit_ambiguous': { index: Optional(Integer({ description: 'Of the edit, from 0' })) },
    'validation_failed/edit_not_text': { index: Optional(Integer({ description: 'Of the edit, from 0' })) },
    workspace_busy: {
      operation_kind: Optional(Word(OPERATION_KINDS)),
      tool_gate: Optional(Word(['read_only', 'closed'])),
    },
    payload_too_large: { max_bytes },
    range_not_satisfiable: { size: Optional(Integer({ description: 'Bytes of the file' })) },
    rate_limited: { retry_after_seconds: Optional(Integer()) },
    'service_unavailable/wake_failed': {
      memory_refused: Optional(Word(MEMORY_REFUSALS)),
      checkpoint_id: Optional(Uuid()),
      without_memory: Optional(Type.Boolean({ description: 'Whether its disk can be started without the memory' })),
    },
  },
}

/** What `details` of a refusal say: names that it has no schema for may come beside those. */
export function detailsOf(surface: Surface, code: string, reason: string | null): Details {
  const of_surface = DETAILS[surface]
  return { ...of_surface[code], ...(reason === null ? {} : of_surface[`${code}/${reason}`]) }
}
