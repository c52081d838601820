import Type, { type Static } from 'typebox'
import { LIMITS } from '../limits.ts'
import { Caps, FreeText, List, Nullable, PageQuery, strict, Text, Timestamp, Uuid } from './common.ts'
import { PUBLISHING } from './template-builds.ts'
import { TemplateSlug } from './templates.ts'
import { AgentLabel, Tools } from './tool-tokens.ts'
import { GivenInputs, OpenResponse, WorkspaceKey } from './workspaces.ts'

export const TemplateDraft = Type.Object(
  {
    id: Uuid(),
    template_id: Uuid(),
    template_slug: TemplateSlug,
    organization_id: Uuid(),
    project_id: Uuid(),
    workspace_id: Uuid('Where it is worked on, with all that a workspace has'),
    base: Type.Object({ slug: TemplateSlug, version: Type.Integer() }, { description: 'The version that it was opened from' }),
    draft_base_version: Nullable(
      Type.Integer({ description: 'The newest version of its template that it knows: its base, or what it has published since' }),
    ),
    latest_version: Nullable(Type.Integer({ description: 'The newest published version of its template' })),
    stale: Type.Boolean({ description: 'Somebody else has published a newer version: a publish is refused with draft_stale' }),
    created_at: Timestamp(),
    discarded_at: Nullable(Timestamp()),
  },
  { title: 'TemplateDraft' },
)
export type TemplateDraft = Static<typeof TemplateDraft>

export const TemplateDraftRequest = Type.Object(
  {
    base: Type.Optional(
      Type.String({
        pattern: '^[a-z0-9][a-z0-9-]{0,62}@[1-9][0-9]{0,8}$',
        description: 'slug@version; omitted: the latest published version of the template',
      }),
    ),
    project_id: Type.Optional(Uuid()),
    display_name: Type.Optional(Text({ minLength: 1, maxLength: 200, description: 'Of a template that is made with it' })),
    caps: Type.Optional(Caps),
    agent_label: Type.Optional(AgentLabel),
    tools: Type.Optional(Tools),
    inputs: Type.Optional(GivenInputs),
  },
  { ...strict, title: 'TemplateDraftRequest' },
)

export const TemplateDraftStarted = Type.Object(
  { draft: TemplateDraft, ...OpenResponse.properties },
  { title: 'TemplateDraftStarted', description: 'The draft, and its workspace as an open answers it' },
)

export const DraftState = Type.Object(
  {
    id: Uuid(),
    label: Nullable(Type.String()),
    checkpoint_id: Uuid('Of the workspace of the draft'),
    operation_id: Uuid('What has captured it'),
    size_bytes: Nullable(Type.Integer()),
    created_at: Timestamp(),
  },
  { title: 'DraftState' },
)
export type DraftState = Static<typeof DraftState>
export const DraftStateList = List(DraftState, 'DraftStateList')

export const DraftStateRequest = Type.Object(
  { label: Type.Optional(FreeText({ minLength: 0, maxLength: LIMITS.workspace.label_characters_max, description: 'For people' })) },
  { ...strict, title: 'DraftStateRequest' },
)

export const DraftTestInstanceRequest = Type.Object(
  {
    state_id: Type.Optional(Uuid('A state of the draft; omitted: the newest')),
    key: Type.Optional(WorkspaceKey),
    caps: Type.Optional(Caps),
    agent_label: Type.Optional(AgentLabel),
    tools: Type.Optional(Tools),
    inputs: Type.Optional(GivenInputs),
  },
  { ...strict, title: 'DraftTestInstanceRequest' },
)

export const DraftTestInstanceQuery = Type.Object({
  ...PageQuery,
  include_ended: Type.Optional(Type.Boolean({ default: false, description: 'Those that have ended, too' })),
})

export const DraftPublishRequest = Type.Object(
  { state_id: Type.Optional(Uuid('A state of the draft; omitted: what the draft holds now, which is captured')), ...PUBLISHING },
  { ...strict, title: 'DraftPublishRequest' },
)
export type DraftPublishRequest = Static<typeof DraftPublishRequest>
