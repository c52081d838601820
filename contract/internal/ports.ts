import Type, { type Static } from 'typebox'
import { LIMITS } from '../limits.ts'
import { PORT_REFUSALS, type PortRefusal } from '../port-refusals.ts'
import { Enum, Nullable } from '../schemas/common.ts'
import { Count } from './values.ts'

// Messages between portd and the cell. Each is a line of JSON: an object with one field, whose name is the kind of frame.

/** Version 2 added `known`, `settle` and `settled`; version 3 `look` and `listeners`. The cell still supports older proxies. */
export const PORT_PROTOCOL = 3

/** Credentials for a port. A link is not accepted for requests: a visitor exchanges the link for a cookie. */
export const CREDENTIAL_KINDS = ['token', 'link', 'cookie', 'callback'] as const
export type CredentialKind = (typeof CREDENTIAL_KINDS)[number]

const TEXT_CHARACTERS_MAX = 256
const Text = (description?: string) =>
  Type.String({ maxLength: TEXT_CHARACTERS_MAX, ...(description === undefined ? {} : { description }) })
const port = Type.Integer({ minimum: 1, maximum: LIMITS.port.number_max })

export const Credential = Type.Object(
  { kind: Enum(CREDENTIAL_KINDS), value: Text() },
  { title: 'Credential', description: 'A credential may be invalid: the cell decides.' },
)

export const HelloFrame = Type.Object(
  { version: Count(), port_host: Type.Optional(Type.String({ description: 'The cell does not read it.' })) },
  { title: 'HelloFrame' },
)

export const AskFrame = Type.Object(
  {
    id: Count(),
    host_id: Text(),
    port,
    credential: Credential,
    websocket: Type.Boolean(),
    method: Text(),
    client: Text('Only for the audit record.'),
  },
  { title: 'AskFrame' },
)
export type AskFrame = Static<typeof AskFrame>

const ago = Type.Optional(Type.Integer({ description: 'The cell does not read it.' }))

export const IdleFrame = Type.Object(
  { lease: Count(), at_ms_ago: ago },
  { title: 'IdleFrame', description: 'No request uses the lease now: it stays granted, but keeps no machine awake.' },
)

export const LeaseFrame = Type.Object({ lease: Count() }, { title: 'LeaseFrame' })

export const CountFrame = Type.Object(
  { lease: Count(), requests: Count(), received_bytes: Count('From visitors.'), sent_bytes: Count('To visitors.') },
  { title: 'CountFrame', description: 'Traffic of a lease since the last count.' },
)
export type CountFrame = Static<typeof CountFrame>

export const ReleaseFrame = Type.Object({ lease: Count(), used_ms_ago: ago }, { title: 'ReleaseFrame' })

export const AbortFrame = Type.Object({ id: Count() }, { title: 'AbortFrame' })

export const Tally = Type.Object(
  {
    connections: Count("The proxy's open visitor connections."),
    turned_away: Count('Connections closed without an answer.'),
    refused: Nullable(Type.Record(Type.String(), Type.Integer(), { description: 'Answers in place of the app, by reason.' })),
  },
  { title: 'Tally', description: "The proxy's own counters since the last tally, except for connections." },
)

export const LookFrame = Type.Object(
  { id: Count(), lease: Count() },
  { title: 'LookFrame', description: 'The port of a lease refuses connections; asks where its app listens.' },
)

export const SettleFrame = Type.Object(
  { id: Count() },
  { title: 'SettleFrame', description: 'portd answers when every stream of the leases cut so far has ended.' },
)

/** Frames that portd sends. */
export const FROM_PROXY = {
  hello: HelloFrame,
  ask: AskFrame,
  idle: IdleFrame,
  busy: LeaseFrame,
  count: CountFrame,
  release: ReleaseFrame,
  abort: AbortFrame,
  tally: Tally,
  settled: SettleFrame,
  look: LookFrame,
} as const

const place = { address: Type.String(), epoch: Count('Unique to the machine: a connection to it belongs to no other.') }
export const MachineAddress = Type.Object(place)
export type MachineAddress = Static<typeof MachineAddress>

export const GrantFrame = Type.Object(
  {
    id: Count(),
    lease: Count(),
    address: place.address,
    port,
    workspace_id: Type.String(),
    epoch: place.epoch,
    expires_in_ms: Nullable(Type.Integer()),
  },
  { title: 'GrantFrame' },
)
export type GrantFrame = Static<typeof GrantFrame>

export const KnownFrame = Type.Object(
  { id: Count() },
  { title: 'KnownFrame', description: 'The credential is valid, and the answer waits for the machine.' },
)

export const ReadyFrame = Type.Object({ lease: Count(), ...place }, { title: 'ReadyFrame' })

export const RedirectFrame = Type.Object(
  { id: Count(), path: Type.String(), cookie: Type.String(), max_age_seconds: Type.Integer() },
  { title: 'RedirectFrame' },
)

export const Refusal = Type.Object(
  {
    status: Type.Integer(),
    reason: Enum(Object.keys(PORT_REFUSALS) as PortRefusal[]),
    message: Type.String(),
    retry_after_seconds: Type.Optional(Type.Integer()),
  },
  { title: 'Refusal', description: "A refusal replaces the app's answer. Its reason is one of PORT_REFUSALS." },
)
export type Refusal = Static<typeof Refusal>

export const RefuseFrame = Type.Object({ id: Count(), ...Refusal.properties }, { title: 'RefuseFrame' })

export const CutFrame = Type.Object(
  { lease: Count(), ...Refusal.properties },
  { title: 'CutFrame', description: 'It may also answer busy. The cell leaves the message to portd.' },
)

export const ListenersFrame = Type.Object(
  { id: Count(), addresses: Nullable(Type.Array(Type.String(), { description: 'null: the machine cannot say.' })) },
  { title: 'ListenersFrame' },
)

type Framed<K extends string, T> = { [P in K]: T }

/** Frames that the cell sends. */
export type ToProxy =
  | Framed<'grant', GrantFrame>
  | Framed<'known', Static<typeof KnownFrame>>
  | Framed<'ready', Static<typeof ReadyFrame>>
  | Framed<'redirect', Static<typeof RedirectFrame>>
  | Framed<'refuse', Static<typeof RefuseFrame>>
  | Framed<'cut', Pick<Static<typeof CutFrame>, 'lease' | 'reason' | 'status'>>
  | Framed<'settle', Static<typeof SettleFrame>>
  | Framed<'listeners', Static<typeof ListenersFrame>>
