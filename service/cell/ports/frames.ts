import { LIMITS } from '../../../contract/limits.ts'
import { PORT_REFUSALS, type PortRefusal } from '../../../contract/port-refusals.ts'
import { CREDENTIAL_KINDS, type CredentialKind } from '../../core/workspaces/ports/credentials.ts'

export interface Ask {
  id: number
  host_id: string
  port: number
  credential: { kind: CredentialKind; value: string }
  websocket: boolean
  method: string
  /** Only for the audit record. */
  client: string
}

export interface Count {
  lease: number
  requests: number
  received_bytes: number
  sent_bytes: number
}

export interface Tally {
  connections: number
  turned_away: number
  refused: [PortRefusal, number][]
}

export type FromProxy =
  | { hello: { version: number } }
  | { ask: Ask }
  /** No request uses the lease: it stays granted, but keeps no machine awake. */
  | { idle: { lease: number } }
  | { busy: { lease: number } }
  | { count: Count }
  | { release: { lease: number } }
  | { abort: { id: number } }
  | { tally: Tally }
  | { settled: { id: number } }
  /** The port of the lease refuses connections: the proxy asks where its app listens. */
  | { look: { id: number; lease: number } }

/** `epoch` is unique to the machine: a connection to it belongs to no other. */
export interface MachineAddress {
  address: string
  epoch: number
}

export interface Refused {
  status: number
  reason: PortRefusal
  message: string
  retry_after_seconds?: number
}

export type ToProxy =
  | { grant: { id: number; lease: number; port: number; workspace_id: string; expires_in_ms: number | null } & MachineAddress }
  /** The credential is valid, and the answer waits for the machine. */
  | { known: { id: number } }
  | { ready: { lease: number } & MachineAddress }
  | { redirect: { id: number; path: string; cookie: string; max_age_seconds: number } }
  | { refuse: { id: number } & Refused }
  | { cut: { lease: number; reason: PortRefusal; status: number } }
  /** Confirm once every stream of the leases cut so far has ended. */
  | { settle: { id: number } }
  | { listeners: { id: number; addresses: readonly string[] | null } }

/** null: the sender is not the proxy. Unknown fields are ignored. */
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

/** A metric label is never text from outside. */
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
    return null
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
