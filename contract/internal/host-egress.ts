import Type, { type Static } from 'typebox'
import { EGRESS_MODES } from '../egress/policy.ts'
import { Enum, Nullable } from '../schemas/common.ts'
import { DENIED_PROTOCOLS } from '../schemas/egress.ts'
import { CommandHeader, Subject } from './host-subject.ts'
import { As, Count, ListOf, Name, wordsOf } from './values.ts'

const Revision = (description?: string) =>
  Type.String({ pattern: '^[a-zA-Z0-9._-]{1,64}$', ...(description === undefined ? {} : { description }) })

export const HostEgressRule = Type.Object(
  {
    host: Type.String({ description: 'Lower-case, at least two labels; "*." stands for one label.' }),
    ports: Type.Array(Type.Integer()),
  },
  { title: 'HostEgressRule', description: 'An egress rule allows TCP to the addresses of a name.' },
)

export const SecretsOf = Type.Object(
  { workspace_id: Name(), epoch: Count() },
  { title: 'SecretsOf', description: 'A machine as the cell knows it.' },
)

/** The revision in force without a policy: all public addresses are reachable. */
export const EGRESS_DEFAULT = 'default'

export const HostEgress = Type.Object(
  {
    revision: Revision('Named in acknowledgements.'),
    mode: Enum(EGRESS_MODES),
    rules: Type.Array(HostEgressRule),
    cidrs: Type.Array(Type.String(), { description: 'Public networks, on all TCP ports.' }),
    secret_ports: Type.Optional(
      Type.Array(Type.Integer(), {
        description: 'Connections to these ports go to the proxy that injects secrets, if the policy allows them. Absent: none.',
      }),
    ),
    secrets_of: Type.Optional(As(SecretsOf, "hostd sets it, and ignores the caller's value.")),
  },
  {
    title: 'HostEgress',
    description: "A policy never allows private addresses or the host's surroundings. Rules and CIDRs apply to an allowlist only.",
  },
)
export type HostEgress = Static<typeof HostEgress>

export const SetEgressRequest = Type.Object(
  { ...CommandHeader.properties, egress: HostEgress },
  {
    title: 'SetEgressRequest',
    description: 'The call waits for no other verb. After its answer the policy governs every packet, and forbidden connections are cut.',
  },
)
export type SetEgressRequest = Static<typeof SetEgressRequest>

export const EgressRevision = Type.Object({ revision: Revision() }, { title: 'EgressRevision' })
export type EgressRevision = Static<typeof EgressRevision>

export const EGRESS_STATE_WORDS = {
  enforced: '',
  failed: "The rules differ from hostd's and could not be repaired: the host allows nothing beyond them",
} as const

export const EgressInForce = Type.Object(
  { revision: Revision(), state: Enum(wordsOf(EGRESS_STATE_WORDS)) },
  { title: 'EgressInForce', description: 'The policy that the host enforces, or will enforce once the machine is connected.' },
)
export type EgressInForce = Static<typeof EgressInForce>

export const EgressDenialsRequest = Type.Object({ subject: Subject }, { title: 'EgressDenialsRequest' })

export const HostDenial = Type.Object(
  {
    name: Nullable(Name('The requested name, or the name from which the address was resolved; null: unknown.')),
    address: Nullable(Type.String({ maxLength: 64, description: 'null: a DNS query.' })),
    port: Type.Integer({ minimum: 0, maximum: 65535, description: '0: none.' }),
    protocol: Enum(DENIED_PROTOCOLS),
    count: Count('Refused packets or queries. The count continues while first_at stays the same.'),
    first_at: Type.String({ format: 'date-time' }),
    last_at: Type.String({ format: 'date-time' }),
  },
  { title: 'HostDenial', description: 'Packets or queries that a policy refused.' },
)
export type HostDenial = Static<typeof HostDenial>

export const EgressDenials = Type.Object(
  { denials: ListOf(HostDenial) },
  {
    title: 'EgressDenials',
    description:
      "Denials of the last hours, latest first: at most 256 names and 256 addresses, under an allowlist or deny_all only. hostd's end loses names.",
  },
)
