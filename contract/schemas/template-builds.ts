import Type, { type Static } from 'typebox'
import { LIMITS } from '../limits.ts'
import { OPERATION_STATES } from '../states/operation.ts'
import { FreeText, List, Nullable, PageQuery, strict, Text, Timestamp, Uuid, Enum } from './common.ts'
import { Operation, OperationError } from './operations.ts'
import { ScanFinding } from './scan-findings.ts'
import { TemplateSettings } from './template-settings.ts'
import { TemplateSlug } from './templates.ts'

export const BUILD_KINDS = ['save_as_template', 'draft', 'recipe'] as const
export type BuildKind = (typeof BUILD_KINDS)[number]

export const TemplateBuild = Type.Object(
  {
    id: Uuid(),
    kind: Enum(BUILD_KINDS),
    state: Enum(OPERATION_STATES, { description: 'Of its operation' }),
    state_reason: Nullable(Type.String()),
    operation_id: Uuid(),
    organization_id: Uuid(),
    project_id: Uuid(),
    template_slug: TemplateSlug,
    version: Nullable(Type.Integer({ description: 'The version that it made' })),
    published: Type.Boolean({ description: 'Whether workspaces are opened with that version' }),
    scan_findings: Type.Array(ScanFinding, {
      description: 'What looks like a secret and was not acknowledged: it keeps the version from being published by itself',
    }),
    error: Nullable(OperationError),
    created_at: Timestamp(),
    started_at: Nullable(Timestamp()),
    completed_at: Nullable(Timestamp()),
  },
  { title: 'TemplateBuild' },
)
export type TemplateBuild = Static<typeof TemplateBuild>
export const TemplateBuildList = List(TemplateBuild, 'TemplateBuildList')
export const TemplateBuildQuery = Type.Object(PageQuery)

export const TemplateBuildLogQuery = Type.Object({
  offset: Type.Optional(
    Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, default: 0, description: 'In bytes: next_offset of the answer before' }),
  ),
})

export const TemplateBuildLog = Type.Object(
  {
    offset: Type.Integer({ description: 'Of the first byte of text' }),
    next_offset: Type.Integer({ description: 'Where to go on' }),
    text: Type.String(),
    complete: Type.Boolean({ description: 'Nothing comes after it' }),
  },
  { title: 'TemplateBuildLog' },
)
export type TemplateBuildLog = Static<typeof TemplateBuildLog>

const { env, inputs, start, services, warm, guest_features, ceiling, defaults } = TemplateSettings.properties
export const UPDATE_POLICIES = ['manual', 'automatic'] as const

export const TemplateDefaults = Type.Partial(defaults, {
  ...strict,
  title: 'TemplateDefaults',
  description: 'For an open that does not say otherwise',
})
export type TemplateDefaults = Static<typeof TemplateDefaults>

export const TemplateSettingsInput = Type.Object(
  {
    env: Type.Optional(env),
    inputs: Type.Optional(inputs),
    start,
    services,
    warm,
    guest_features,
    ceiling: Type.Optional(ceiling),
    defaults: Type.Optional(TemplateDefaults),
    update_policy: Type.Optional(Enum(UPDATE_POLICIES, { description: 'manual: workspaces keep the version that they were made from' })),
  },
  { ...strict, title: 'TemplateSettingsInput' },
)
export type TemplateSettingsInput = Static<typeof TemplateSettingsInput>

/** The schema does not check number and form of paths, because these refusals have reasons of their own. */
const AcknowledgedFindings = Type.Array(FreeText({ minLength: 0, maxLength: LIMITS.file.path_bytes_max }), {
  maxItems: 10_000,
  description: 'Absolute paths of files that may hold what looks like a secret; at most 200',
})
export const PUBLISHING = {
  defaults: Type.Optional(TemplateDefaults),
  auto_publish: Type.Optional(Type.Boolean({ description: 'Workspaces are opened with the version as soon as it is there' })),
  acknowledged_scan_findings: Type.Optional(AcknowledgedFindings),
  settings: Type.Optional(TemplateSettingsInput),
  description: Type.Optional(FreeText({ minLength: 0, maxLength: 4000 })),
}

export const SaveAsTemplateRequest = Type.Object(
  {
    template_slug: TemplateSlug,
    display_name: Type.Optional(Text({ minLength: 1, maxLength: 200 })),
    checkpoint_id: Type.Optional(Uuid('Of the workspace: what it holds is saved, and the workspace need not run')),
    ...PUBLISHING,
  },
  { ...strict, title: 'SaveAsTemplateRequest' },
)
export type SaveAsTemplateRequest = Static<typeof SaveAsTemplateRequest>

export const SaveAsTemplateResponse = Type.Object(
  { operation: Nullable(Operation), build: TemplateBuild },
  {
    title: 'SaveAsTemplateResponse',
    description: 'What captures the files, null where they were captured before; and what makes the version',
  },
)

export const TemplateBuildStarted = Type.Object(
  { operation: Operation, build: TemplateBuild },
  { title: 'TemplateBuildStarted', description: 'What makes the version, and what it makes' },
)
