import type { IncomingMessage, ServerResponse } from 'node:http'
import type { WebSocket } from 'ws'
import type { Role } from '../../contract/access.ts'
import type { Parsed, Route, Tool } from '../../contract/route.ts'
import type { WebSocketEnd } from './websocket.ts'

export type Principal = ApiKeyPrincipal | PersonPrincipal

export interface ApiKeyPrincipal {
  type: 'api_key'
  id: string
  key_id: string
  organization_id: string
  project_id: string
  tool_permissions: Tool[]
}

export interface PersonPrincipal {
  type: 'user'
  id: string
  email: string
  memberships: { organization_id: string; role: Role }[]
  session: PersonSession
}

export interface PersonSession {
  id: string
  /** Last password check in this session; null: none since sign-in. */
  stepped_up_at: Date | null
}

/** Caller of the gateway: claims of a verified tool token (App, "Tool token"). */
export interface ToolCaller {
  type: 'tool_token'
  principal_type: 'api_key' | 'user'
  principal_id: string
  workspace_id: string
  ownership_epoch: number
  agent_session_id: string
  /** Session in which a person created the token; null: the token names none. */
  person_session_id: string | null
  tools: Tool[]
  issued_at_seconds: number
  expires_at_seconds: number
}

export type Who = Principal | ToolCaller

/** A request before parsing, for refusals that come before those of the parser. */
export interface Arrival {
  route: Route
  request_id: string
  now: Date
  /** Parameters of the path as unchecked text. */
  params: Record<string, string>
  /** Address of the peer, behind a proxy that of the proxy; empty after a disconnect. */
  address: string
  /** Path and query as sent, not decoded. */
  url: string
  headers: IncomingMessage['headers']
}

export interface Call<R extends Route = Route> extends Parsed<R> {
  route: R
  request_id: string
  /** The time that all decisions and writes of this request use. */
  now: Date
  who: R['surface'] extends 'cell' ? ToolCaller : Principal
  /** Seconds for which the caller agrees to wait (Prefer: wait); 0: none. */
  wait_seconds: number
  /** Present on (I) routes if the caller sent a key. */
  idempotency: {
    key: string
    fingerprint: Buffer
    matches(kept: Buffer): boolean
  } | null
  /** Address of the peer, behind a proxy that of the proxy; empty after a disconnect. */
  address: string
  url: string
  headers: IncomingMessage['headers']
  signal: AbortSignal
  /** The raw body of routes whose body is 'bytes'. */
  body_stream: IncomingMessage
}

/**
 * Answer of a handler: a body for the schema of the status (a Buffer is sent as it is, `json` is already serialized), or a stream that
 * writes itself.
 */
export type Reply =
  | { status: number; body?: unknown; json?: string; headers?: Record<string, string> }
  | { stream: (response: ServerResponse) => Promise<void> }
  /** For WebSocket routes only. The socket is paused; a refusal that the function throws is sent before the close. */
  | { websocket: (socket: WebSocket) => Promise<WebSocketEnd> }

/** `ticket`: result of the server's `admit` for this request; undefined without one. */
export type Handler<R extends Route, Deps, Ticket = unknown> = (call: Call<R>, deps: Deps, ticket: Ticket) => Promise<Reply>

export interface Bound<Deps, Ticket = unknown> {
  route: Route
  handler: Handler<Route, Deps, Ticket>
}

/** A handler for each route, by the id of the route. */
export type HandlersOf<Routes, Deps, Ticket = unknown> = {
  readonly [Id in keyof Routes]: Routes[Id] extends Route ? Handler<Routes[Id], Deps, Ticket> : never
}

/** Binds each route to the handler of its id, and erases the types of handlers. The type of `handlers` makes the compiler report a missing or a wrong handler. */
export function bindAll<Routes, Deps, Ticket>(routes: readonly Route[], handlers: HandlersOf<Routes, Deps, Ticket>): Bound<Deps, Ticket>[] {
  const by_id = new Map(Object.entries<unknown>(handlers))
  const bound = routes.map((route) => {
    const handler = by_id.get(route.id)
    if (typeof handler !== 'function') throw new Error(`Route ${route.id} has no handler`)
    return { route, handler: handler as Handler<Route, Deps, Ticket> }
  })
  if (bound.length !== by_id.size) throw new Error('A handler has no route')
  return bound
}
