import Type, { type Static } from 'typebox'
import { EGRESS_MODES, EGRESS_PORTS_DEFAULT } from '../egress/policy.ts'
import { LIMITS } from '../limits.ts'
import { List, Nullable, strict, Text, Timestamp, Uuid, Enum } from './common.ts'

const MODE = {
  description: 'allow_all: all that is public. allowlist: what rules and cidrs name, and nothing without them. deny_all: nothing',
}
const HOST = 'A fully qualified name, or `*.` and one: `*` stands for exactly one label. In lower case and ASCII (IDNA)'
const CIDR = 'A public network; every port of TCP'
const CIDR_CHARACTERS_MAX = 49

const port = () => Type.Integer({ minimum: 1, maximum: 65535 })

export const EgressRules = Type.Object(
  {
    mode: Enum(EGRESS_MODES, MODE),
    rules: Type.Array(
      Type.Object(
        { host: Type.String({ description: HOST }), ports: Type.Array(port()), protocols: Type.Array(Enum(['tcp'])) },
        { title: 'EgressRule' },
      ),
      { description: 'A set, as cidrs and ports are: their order means nothing, and may be another in each answer' },
    ),
    cidrs: Type.Array(Type.String({ description: CIDR })),
  },
  { title: 'EgressRules' },
)

export const EgressPolicyRequest = Type.Object(
  {
    mode: Enum(EGRESS_MODES, MODE),
    rules: Type.Optional(
      Type.Array(
        Type.Object(
          {
            host: Text({ minLength: 1, maxLength: LIMITS.egress.host_characters_max, description: `${HOST}, which it becomes` }),
            ports: Type.Optional(
              Type.Array(port(), { minItems: 1, maxItems: LIMITS.egress.ports_max, default: [...EGRESS_PORTS_DEFAULT] }),
            ),
            protocols: Type.Optional(Type.Array(Enum(['tcp']), { minItems: 1, maxItems: 1, default: ['tcp'] })),
          },
          strict,
        ),
        { maxItems: LIMITS.egress.rules_max, description: 'With allowlist alone' },
      ),
    ),
    cidrs: Type.Optional(
      Type.Array(Text({ minLength: 1, maxLength: CIDR_CHARACTERS_MAX, description: CIDR }), {
        maxItems: LIMITS.egress.cidrs_max,
        description: 'With allowlist alone',
      }),
    ),
  },
  { ...strict, title: 'EgressPolicyRequest' },
)

const version = (description: string) => Type.Integer({ minimum: 0, description })

export const ProjectEgressPolicy = Type.Object(
  {
    project_id: Uuid(),
    ...EgressRules.properties,
    version: version('Of the project; 0: nobody has set a policy. The value of If-Match, and the ETag'),
    updated_at: Nullable(Timestamp()),
  },
  { title: 'ProjectEgressPolicy' },
)
export type ProjectEgressPolicy = Static<typeof ProjectEgressPolicy>

export const EGRESS_SOURCES = ['workspace', 'project', 'platform'] as const
export const ENFORCEMENT_STATES = ['not_enforced', 'pending', 'enforced', 'failed'] as const
export type EnforcementState = (typeof ENFORCEMENT_STATES)[number]

export const WorkspaceEgressPolicy = Type.Object(
  {
    workspace_id: Uuid(),
    ...EgressRules.properties,
    source: Enum(EGRESS_SOURCES, { description: "Whose policy it is: the workspace's own override, its project's, or the platform's" }),
    version: version(
      "Of the workspace's overrides, the clearing of one counted; 0: there never was one. The value of If-Match, and the ETag",
    ),
    project_version: version("Of its project's policy"),
    template_egress: Nullable(EgressRules),
    effective_policy: EgressRules,
    enforcement: Type.Object({
      state: Enum(ENFORCEMENT_STATES, {
        description:
          'not_enforced: it has no machine, or its host has not acknowledged any policy of this ownership epoch. pending: the host enforces an ' +
          'earlier policy of this epoch. failed: the host could not put the policy in force, and lets nothing more out than before',
      }),
      acknowledged_at: Nullable(Timestamp('When the host said so')),
    }),
    updated_at: Nullable(Timestamp('When the override was set or cleared')),
  },
  { title: 'WorkspaceEgressPolicy' },
)
export type WorkspaceEgressPolicy = Static<typeof WorkspaceEgressPolicy>

export const EgressVersion = Type.Object(
  {
    version: Type.Integer({ minimum: 1 }),
    cleared: Type.Boolean({ description: 'The override was taken back: mode is null' }),
    mode: Nullable(Enum(EGRESS_MODES)),
    rules: EgressRules.properties.rules,
    cidrs: EgressRules.properties.cidrs,
    created_at: Timestamp(),
    created_by: Type.Object({ type: Enum(['user', 'api_key']), id: Uuid() }),
  },
  { title: 'EgressVersion' },
)
export type EgressVersion = Static<typeof EgressVersion>
export const EgressVersionList = List(EgressVersion, 'EgressVersionList')

export const DENIED_PROTOCOLS = ['tcp', 'udp', 'dns', 'other'] as const
export const EgressDenial = Type.Object(
  {
    name: Nullable(Type.String({ description: 'That was asked for; of an address: the one that had led there, where that is known' })),
    address: Nullable(Type.String({ description: 'null of a name that was not resolved' })),
    port: Nullable(Type.Integer({ minimum: 1, maximum: 65535 })),
    protocol: Enum(DENIED_PROTOCOLS, { description: 'dns: the name itself was refused' }),
    count: Type.Integer({ minimum: 1, description: 'Packets or questions' }),
    first_at: Timestamp(),
    last_at: Timestamp(),
  },
  { title: 'EgressDenial' },
)
export type EgressDenial = Static<typeof EgressDenial>
export const EgressDenialList = List(EgressDenial, 'EgressDenialList')
