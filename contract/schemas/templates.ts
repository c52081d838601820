import Type, { type Static } from 'typebox'
import { WARM_REASONS } from '../errors.ts'
import { EgressRules } from './egress.ts'
import { Caps, List, Nullable, strict, Timestamp, Uuid, Enum } from './common.ts'
import { ScanFinding } from './scan-findings.ts'
import { TemplateSettings } from './template-settings.ts'
import { AgentLabel, Tools } from './tool-tokens.ts'
import { DISK_LAYOUTS, GivenInputs, WorkspaceKey } from './workspaces.ts'

export const TemplateSlug = Type.String({ pattern: '^[a-z0-9][a-z0-9-]{0,62}$' })
/** Reserved for templates that an installation may add later. */
export const RESERVED_TEMPLATE_SLUGS: readonly string[] = ['base', 'node', 'python', 'browser', 'code-interpreter', 'desktop']
export const VersionNumber = Type.Integer({ minimum: 1, maximum: 2_147_483_647 })

export const Template = Type.Object(
  {
    id: Uuid(),
    slug: TemplateSlug,
    organization_id: Nullable(Uuid("null: it is the platform's")),
    display_name: Nullable(Type.String({ description: 'What people call it' })),
    description: Nullable(Type.String()),
    latest_version: Nullable(
      Type.Integer({ description: 'The newest published version, which an open of a new key uses; null: there is none' }),
    ),
    created_at: Timestamp(),
    archived_at: Nullable(Timestamp('Since then no new key is opened with it; workspaces that were made from it go on')),
  },
  { title: 'Template' },
)
export type Template = Static<typeof Template>
export const TemplateList = List(Template, 'TemplateList')

export const WARM_STATES = ['none', 'making', 'ready', 'failed'] as const

/** State of a version with settings.warm. */
export const WarmVersion = Type.Object(
  {
    state: Enum(WARM_STATES, {
      description: 'none: the next open has one made. failed: opens are cold, and an hour later it is tried again',
    }),
    error: Nullable(
      Type.Object(
        {
          step: Nullable(Type.String({ description: 'The start command or service; null: it was the machine' })),
          reason: Enum(WARM_REASONS),
          exit_code: Nullable(Type.Integer()),
          output_tail: Type.String(),
        },
        { description: 'Why it failed' },
      ),
    ),
  },
  { title: 'WarmVersion' },
)
export type WarmVersion = Static<typeof WarmVersion>

export const TemplateVersion = Type.Object(
  {
    id: Uuid(),
    template_id: Uuid(),
    slug: TemplateSlug,
    organization_id: Nullable(Uuid("null: it is the platform's")),
    version: Type.Integer(),
    disk_layout: Enum(DISK_LAYOUTS, { description: 'Of the workspaces that are made from it' }),
    layers: Type.Array(Type.String(), { description: 'SHA-256 of each file system image, the lowest first' }),
    settings: TemplateSettings,
    egress: Nullable(EgressRules),
    description: Nullable(Type.String()),
    scan_findings: Type.Array(ScanFinding, { description: 'What looked like a secret when it was made, and was not acknowledged' }),
    warm: Type.Optional(WarmVersion),
    created_at: Timestamp(),
    published_at: Nullable(Timestamp('null: no workspace is opened with it')),
    archived_at: Nullable(Timestamp('Since then it is never the latest one; workspaces that were made from it go on')),
  },
  { title: 'TemplateVersion' },
)
export type TemplateVersion = Static<typeof TemplateVersion>
export const TemplateVersionList = List(TemplateVersion, 'TemplateVersionList')

export const TestInstanceRequest = Type.Object(
  {
    key: Type.Optional(WorkspaceKey),
    caps: Type.Optional(Caps),
    agent_label: Type.Optional(AgentLabel),
    tools: Type.Optional(Tools),
    inputs: Type.Optional(GivenInputs),
    project_id: Type.Optional(Uuid()),
  },
  { ...strict, title: 'TestInstanceRequest' },
)
