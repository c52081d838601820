import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Parsed, Route, Tool } from '../../contract/route.ts'

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
  memberships: { organization_id: string; role: 'owner' | 'admin' | 'member' | 'billing' }[]
}

/** Who calls the gateway: the claims of a verified tool token (App, "Tool token"). */
export interface ToolCaller {
  type: 'tool_token'
  principal_type: 'api_key' | 'user'
  principal_id: string
  workspace_id: string
  ownership_epoch: number
  agent_session_id: string
  tools: Tool[]
  issued_at_seconds: number
  expires_at_seconds: number
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
  idempotency: { key: string; fingerprint: Buffer } | null
  headers: IncomingMessage['headers']
  /** Ends when the client is gone. */
  signal: AbortSignal
  /** The raw body, on routes whose body is 'bytes'. */
  body_stream: IncomingMessage
}

/** What a handler answers: a body for the schema of that status, or a stream that it writes itself. */
export type Reply =
  | { status: number; body?: unknown; headers?: Record<string, string> }
  | { stream: (response: ServerResponse) => Promise<void> }

export type Handler<R extends Route, Deps> = (call: Call<R>, deps: Deps) => Promise<Reply>
