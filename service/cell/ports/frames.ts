import { LIMITS } from '../../../contract/limits.ts'
import { PORT_REFUSALS, type PortRefusal } from '../../../contract/port-refusals.ts'
import { CREDENTIAL_KINDS, type CredentialKind } from '../../core/ports/credentials.ts'

/** What a visitor wants: to be let in, by a credential. */
export interface Ask {
  id: number
  host_id: string
  port: number
  credential: { kind: CredentialKind; value: string }
  websocket: boolean
  method: string
  /** For the record alone. */
  client: string
}

/** Traffic of a lease since it was last told. */
export interface Count {
  lease: number
  requests: number
  received_bytes: number
  sent_bytes: number
}

/** What a proxy has counted of itself since it told last, and how many connections visitors have open. */
export interface Tally {
  connections: number
  turned_away: number
  refused: [PortRefusal, number][]
}

/** One line from the proxy: what it says, and whatever belongs to that. */
export type FromProxy =
  | { hello: { version: number } }
  | { ask: Ask }
  /** No request uses the lease any more: it stays granted, and keeps nothing awake. */
  | { idle: { lease: number } }
  /** A request uses it again. */
  | { busy: { lease: number } }
  | { count: Count }
  | { release: { lease: number } }
  /** The visitor has left before the answer. */
  | { abort: { id: number } }
  | { tally: Tally }
  /** What a settle asked for has happened. */
  | { settled: { id: number } }
  /** The port of a lease refuses connections: where does its app listen? */
  | { look: { id: number; lease: number } }

/** Where a machine is. The number names it and no other: connections of one are none of another. */
export interface Place {
  address: string
  epoch: number
}

export interface Refused {
  status: number
  reason: PortRefusal
  message: string
  retry_after_seconds?: number
}

/** One line to the proxy. */
export type ToProxy =
  | { grant: { id: number; lease: number; port: number; workspace_id: string; expires_in_ms: number | null } & Place }
  /** The credential is good, and the answer waits for the machine. */
  | { known: { id: number } }
  | { ready: { lease: number } & Place }
  | { redirect: { id: number; path: string; cookie: string; max_age_seconds: number } }
  | { refuse: { id: number } & Refused }
  | { cut: { lease: number; reason: PortRefusal; status: number } }
  /** Say so when every stream of what was cut before has ended. */
  | { settle: { id: number } }
  /** The answer to a look; null: the machine cannot say. */
  | { listeners: { id: number; addresses: readonly string[] | null } }

/** null: it is no frame, and whoever says it is not the proxy. What is not known is looked over. */
export function parseFrame(line: string): FromProxy | null {
  const said = recordOf(parsed(line))
  const [kind] = Object.keys(said)
  const body = recordOf(kind === undefined ? undefined : said[kind])
  switch (kind) {
    case 'hello':
      return isCount(body['version']) ? { hello: { version: body['version'] } } : null
    case 'ask':
      return askOf(body)
    case 'count':
      return countOf(body)
    case 'idle':
      return isCount(body['lease']) ? { idle: { lease: body['lease'] } } : null
    case 'busy':
      return isCount(body['lease']) ? { busy: { lease: body['lease'] } } : null
    case 'release':
      return isCount(body['lease']) ? { release: { lease: body['lease'] } } : null
    case 'abort':
      return isCount(body['id']) ? { abort: { id: body['id'] } } : null
    case 'settled':
      return isCount(body['id']) ? { settled: { id: body['id'] } } : null
    case 'look':
      return isCount(body['id']) && isCount(body['lease']) ? { look: { id: body['id'], lease: body['lease'] } } : null
    case 'tally':
      return tallyOf(body)
    default:
      return null
  }
}

const TEXT_MAX = 256

function askOf({ id, host_id, port, credential, websocket, method, client }: Record<string, unknown>): FromProxy | null {
  const { kind, value } = recordOf(credential)
  const known = CREDENTIAL_KINDS.find((each) => each === kind)
  const is_port = isCount(port) && port >= 1 && port <= LIMITS.port.number_max
  if (!isCount(id) || !is_port || !isText(host_id) || known === undefined || !isText(value)) return null
  return {
    ask: {
      id,
      host_id,
      port,
      credential: { kind: known, value },
      websocket: websocket === true,
      method: isText(method) ? method : '',
      client: isText(client) ? client : '',
    },
  }
}

function countOf({ lease, requests, received_bytes, sent_bytes }: Record<string, unknown>): FromProxy | null {
  if (!isCount(lease) || !isCount(requests) || !isCount(received_bytes) || !isCount(sent_bytes)) return null
  return { count: { lease, requests, received_bytes, sent_bytes } }
}

/** A reason that is none is left out: a label is never what somebody sent. */
function tallyOf({ connections, turned_away, refused }: Record<string, unknown>): FromProxy | null {
  if (!isCount(connections) || !isCount(turned_away)) return null
  const many = recordOf(refused)
  const known = (Object.keys(PORT_REFUSALS) as PortRefusal[]).flatMap((reason): [PortRefusal, number][] => {
    const count = Object.hasOwn(many, reason) ? many[reason] : 0
    return isCount(count) && count > 0 ? [[reason, count]] : []
  })
  return { tally: { connections, turned_away, refused: known } }
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch {
    return null // not JSON: no frame
  }
}

function recordOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value.length <= TEXT_MAX
}
