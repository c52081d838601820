import Type, { type Static } from 'typebox'
import { LIMITS } from '../limits.ts'
import { TOOLS } from '../tools.ts'
import { FreeText, List, Nullable, PageQuery, strict, Text, Timestamp, Uuid, Enum } from './common.ts'

export const RESERVED_SECRET_PREFIX = 'SERVICE_'
/** A secret can be bound only if commands and terminals may both use it. */
export const TOOLS_OF_BINDINGS = ['exec', 'pty'] as const

const Name = Type.String({
  pattern: '^[A-Za-z_][A-Za-z0-9_]*$',
  minLength: 1,
  maxLength: LIMITS.secret.name_characters_max,
  description: `The environment variable that its value becomes; names that start with ${RESERVED_SECRET_PREFIX} are reserved`,
})
const Value = Type.String({
  description: `Never returned. UTF-8 text of at most ${LIMITS.secret.value_bytes_max} bytes, without NUL`,
})
const Description = FreeText({ minLength: 0, maxLength: LIMITS.secret.description_characters_max })
const Ids = (description: string) =>
  Nullable(Type.Array(Uuid(), { maxItems: LIMITS.secret.allowed_ids_max, uniqueItems: true, description }))
const AllowedTools = Type.Array(Enum(TOOLS), {
  maxItems: TOOLS.length,
  uniqueItems: true,
  description: 'What may be started with its value. It can be bound to a workspace only with both `exec` and `pty` among them',
})

/**
 * The proxy injects the value, so no workspace has it. The value replaces the placeholder in headers and the query, and sets the header,
 * user or parameter named here.
 */
export const SecretHost = Type.Object(
  {
    host: Text({
      minLength: 1,
      maxLength: LIMITS.egress.host_characters_max,
      description: 'A name as egress policies have it; `*.` in front stands for one label',
    }),
    ports: Type.Optional(
      Type.Array(Type.Integer({ minimum: 1, maximum: 65_535 }), {
        minItems: 1,
        maxItems: LIMITS.secret.host_ports_max,
        uniqueItems: true,
        description: 'Default: 443',
      }),
    ),
    header: Type.Optional(
      Type.String({
        pattern: "^[A-Za-z0-9!#$%&'*+.^_`|~-]+$",
        minLength: 1,
        maxLength: LIMITS.secret.host_place_characters_max,
        description: 'The header that is the value',
      }),
    ),
    bearer: Type.Optional(Type.Literal(true, { description: 'Authorization: Bearer, and the value' })),
    basic_user: Type.Optional(
      FreeText({
        minLength: 0,
        maxLength: LIMITS.secret.host_place_characters_max,
        description: 'Authorization: Basic, of this user with the value as password',
      }),
    ),
    query: Type.Optional(
      FreeText({
        minLength: 1,
        maxLength: LIMITS.secret.host_place_characters_max,
        description: 'The parameter of the query that is the value',
      }),
    ),
  },
  { ...strict },
)
export type SecretHost = Static<typeof SecretHost>

const Hosts = Nullable(
  Type.Array(SecretHost, {
    minItems: 1,
    maxItems: LIMITS.secret.hosts_max,
    description:
      'null: the value is in the environment. Else no workspace ever has it: the environment has a placeholder, and requests to these hosts get the value on their way',
  }),
)

/** Normalized host name, sorted ports, and at most one place for the value. */
export interface NormalSecretHost {
  host: string
  ports: number[]
  header?: string
  bearer?: true
  basic_user?: string
  query?: string
}

const CREATE = {
  name: Name,
  description: Type.Optional(Nullable(Description)),
  value: Value,
  allowed_workspace_ids: Type.Optional(Ids('null: every workspace')),
  allowed_tools: Type.Optional(AllowedTools),
  hosts: Type.Optional(Hosts),
}
export const SecretCreate = Type.Object(CREATE, { ...strict, title: 'SecretCreate' })
export type SecretCreate = Static<typeof SecretCreate>

const allowed_project_ids = Type.Optional(Ids("null: every project of the organization. Of an organization's secret only"))
export const OrganizationSecretCreate = Type.Object({ ...CREATE, allowed_project_ids }, { ...strict, title: 'OrganizationSecretCreate' })
export type OrganizationSecretCreate = Static<typeof OrganizationSecretCreate>

export const SecretUpdate = Type.Object(
  {
    description: CREATE.description,
    allowed_project_ids,
    allowed_workspace_ids: CREATE.allowed_workspace_ids,
    allowed_tools: CREATE.allowed_tools,
    hosts: CREATE.hosts,
  },
  { ...strict, title: 'SecretUpdate' },
)
export type SecretUpdate = Static<typeof SecretUpdate>

/** See the specification (App, "Secret"). */
export const Secret = Type.Object(
  {
    id: Uuid(),
    organization_id: Uuid(),
    project_id: Nullable(Uuid("null: the organization's")),
    name: Type.String(),
    description: Nullable(Type.String()),
    allowed_project_ids: Nullable(Type.Array(Uuid())),
    allowed_workspace_ids: Nullable(Type.Array(Uuid())),
    allowed_tools: Type.Array(Enum(TOOLS)),
    hosts: Nullable(Type.Array(SecretHost)),
    version: Type.Integer({ description: 'The newest, which is used from the next start on' }),
    created_at: Timestamp(),
    updated_at: Timestamp(),
    deleted_at: Nullable(Timestamp()),
  },
  { title: 'Secret' },
)
export type Secret = Static<typeof Secret>
export const SecretList = List(Secret, 'SecretList')

export const SecretQuery = Type.Object({
  ...PageQuery,
  include_deleted: Type.Optional(Type.Boolean({ description: 'Default: false' })),
})

export const SecretVersionCreate = Type.Object({ value: Value }, { ...strict, title: 'SecretVersionCreate' })
export type SecretVersionCreate = Static<typeof SecretVersionCreate>

export const SecretVersion = Type.Object(
  {
    id: Uuid(),
    secret_id: Uuid(),
    version: Type.Integer(),
    created_at: Timestamp(),
    erased_at: Nullable(Timestamp('When its value was erased; null while it is the one that is used')),
  },
  { title: 'SecretVersion' },
)
export type SecretVersion = Static<typeof SecretVersion>
export const SecretVersionList = List(SecretVersion, 'SecretVersionList')

/** See the specification (App, "Secret"). */
export const BINDING_STATUSES = ['available', 'not_allowed', 'deleted'] as const
export type BindingStatus = (typeof BINDING_STATUSES)[number]

export const WorkspaceSecrets = Type.Object(
  {
    secrets: Type.Array(
      Type.Object({
        name: Type.String(),
        status: Enum(BINDING_STATUSES, {
          description: 'deleted: the template version requires a secret of this name, and there is none any more',
        }),
      }),
    ),
  },
  { title: 'WorkspaceSecrets' },
)
export type WorkspaceSecrets = Static<typeof WorkspaceSecrets>

export const SecretNames = Type.Array(FreeText({ minLength: 1, maxLength: LIMITS.secret.name_characters_max }), {
  maxItems: LIMITS.secret.per_workspace_max,
  uniqueItems: true,
})
export const WorkspaceSecretsRequest = Type.Object({ names: SecretNames }, { ...strict, title: 'WorkspaceSecretsRequest' })
