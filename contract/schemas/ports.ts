import Type, { type Static } from 'typebox'
import { LIMITS } from '../limits.ts'
import { FreeText, List, Nullable, strict, Timestamp, Uuid } from './common.ts'

/** Port of the agent. No app can listen on this port, and no caller can reach it. */
export const AGENT_PORT = 65_100
/** The service itself answers requests below this path. */
export const RESERVED_PATH = '/__service'

export const PortNumber = Type.Integer({
  minimum: 1,
  maximum: LIMITS.port.number_max,
  description: `A TCP port on which something in the workspace listens on 0.0.0.0; ${AGENT_PORT} is the service's own`,
})

/** See the specification (Cell, "Port access records"). */
export const Port = Type.Object(
  {
    workspace_id: Uuid(),
    port: Type.Integer(),
    url: Type.String({ description: 'The same for as long as the workspace is there' }),
    callback: Nullable(Type.Object({ created_at: Timestamp() }, { description: 'null: there is no callback URL' })),
    requests: Type.Integer({ description: 'That reached the workspace since the port was exposed; this and the next are seconds late' }),
    received_bytes: Type.Integer({ description: 'From visitors' }),
    sent_bytes: Type.Integer({ description: 'Back to visitors: outbound transfer' }),
    last_request_at: Nullable(Timestamp()),
    created_at: Timestamp(),
  },
  { title: 'Port' },
)
export type Port = Static<typeof Port>
export const PortList = List(Port, 'PortList')

const ttl = (minimum: number, maximum: number, otherwise: number) => {
  const seconds = (description: string) => Type.Optional(Type.Integer({ minimum, maximum, description }))
  return {
    ttl_seconds: seconds(`Default ${otherwise}`),
    ttlSeconds: seconds('The same by another name'),
    ttl: seconds('The same by another name'),
  }
}
const { token_seconds_min, token_seconds_max, token_seconds_default, link_seconds_min, link_seconds_max, link_seconds_default } =
  LIMITS.port

export const PortTokenRequest = Type.Object(ttl(token_seconds_min, token_seconds_max, token_seconds_default), strict)
export const PortLinkRequest = Type.Object(
  {
    path: Type.Optional(
      FreeText({
        minLength: 1,
        maxLength: LIMITS.port.path_characters_max,
        description: 'Where whoever opens the link ends up: a path of the app, with its query. Default /',
      }),
    ),
    ...ttl(link_seconds_min, link_seconds_max, link_seconds_default),
  },
  strict,
)
export type Ttl = Pick<Static<typeof PortTokenRequest>, 'ttl_seconds' | 'ttlSeconds' | 'ttl'>

const OF_PORT = { workspace_id: Uuid(), port: Type.Integer(), created_at: Timestamp() }

export const PortToken = Type.Object(
  {
    token: Type.String({ description: 'Shown once. Sent as `Authorization: Bearer sfp_…` or as `X-Service-Token: sfp_…`' }),
    token_type: Type.Literal('Bearer'),
    url: Type.String({ description: 'Of the port' }),
    ...OF_PORT,
    expires_at: Timestamp(),
  },
  { title: 'PortToken' },
)
export type PortToken = Static<typeof PortToken>

export const PortLink = Type.Object(
  {
    url: Type.String({ description: 'Shown once. Whoever opens it is let in until it expires' }),
    path: Type.String(),
    ...OF_PORT,
    expires_at: Timestamp(),
  },
  { title: 'PortLink' },
)
export type PortLink = Static<typeof PortLink>

export const PortCallback = Type.Object(
  { url: Type.String({ description: 'Shown once. What follows it is the path in the app' }), ...OF_PORT },
  { title: 'PortCallback' },
)
export type PortCallback = Static<typeof PortCallback>
