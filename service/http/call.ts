import type { IncomingMessage, ServerResponse } from 'node:http'
import type { WebSocket } from 'ws'
import type { Role } from '../../contract/access.ts'
import type { Parsed, Route, Tool } from '../../contract/route.ts'
import type { Goodbye } from './websocket.ts'

/** Who calls the application API. */
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

/** The session that a person calls with. */
export interface PersonSession {
  id: string
  /** When its person last gave their password in it; null: not since they signed in. */
  stepped_up_at: Date | null
}

/** Who calls the gateway: the claims of a verified tool token (App, "Tool token"). */
export interface ToolCaller {
  type: 'tool_token'
  principal_type: 'api_key' | 'user'
  principal_id: string
  workspace_id: string
  ownership_epoch: number
  agent_session_id: string
  /** Of a person: the session that the token was made in; null: it does not say. */
  person_session_id: string | null
  tools: Tool[]
  issued_at_seconds: number
  expires_at_seconds: number
}

export type Who = Principal | ToolCaller

/** One request before anything of it is parsed: what refusals that win over parsing may look at. */
export interface Arrival {
  route: Route
  request_id: string
  now: Date
  /** Path parameters as they stand in the path: not checked yet. */
  params: Record<string, string>
  /** The other end of the connection; empty when it is gone. Behind a proxy it is the proxy. */
  address: string
  /** Path and query as they were sent, before any decoding. */
  url: string
  headers: IncomingMessage['headers']
}

/** One request as a handler sees it: everything checked, nothing left to parse. */
export interface Call<R extends Route = Route> extends Parsed<R> {
  route: R
  request_id: string
  /** The moment this request is judged by; the same for all its writes. */
  now: Date
  who: R['surface'] extends 'cell' ? ToolCaller : Principal
  /** Seconds that the caller is willing to be held (Prefer: wait), 0 when not. */
  wait_seconds: number
  /** Present on (I) routes when the caller sent a key. */
  idempotency: {
    key: string
    fingerprint: Buffer
    /** Whether a fingerprint that was kept is of the same request. */
    matches(kept: Buffer): boolean
  } | null
  /** The other end of the connection; empty when it is gone. Behind a proxy it is the proxy. */
  address: string
  url: string
  headers: IncomingMessage['headers']
  /** Ends when the client is gone. */
  signal: AbortSignal
  /** The raw body, on routes whose body is 'bytes'. */
  body_stream: IncomingMessage
}

/**
 * What a handler answers: a body for the schema of that status (a Buffer goes out as it is; `json` is one that is written out
 * already), or a stream that it writes itself.
 */
export type Reply =
  | { status: number; body?: unknown; json?: string; headers?: Record<string, string> }
  | { stream: (response: ServerResponse) => Promise<void> }
  /** On routes that are WebSockets, and only there. The socket comes paused; a refusal that is thrown is told before it is closed. */
  | { websocket: (socket: WebSocket) => Promise<Goodbye> }

/** `ticket` is what the server's `admit` gave for this request (the gateway's gate); undefined without one. */
export type Handler<R extends Route, Deps, Ticket = unknown> = (call: Call<R>, deps: Deps, ticket: Ticket) => Promise<Reply>

/** A route with its handler, its type forgotten. */
export interface Bound<Deps, Ticket = unknown> {
  route: Route
  handler: Handler<Route, Deps, Ticket>
}

/** Ties a handler to its route: the only place where a handler's own types are forgotten. */
export function bind<R extends Route, Deps, Ticket = unknown>(route: R, handler: Handler<R, Deps, Ticket>): Bound<Deps, Ticket> {
  return { route, handler: handler as unknown as Handler<Route, Deps, Ticket> }
}
