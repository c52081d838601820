import type { Static, TSchema } from 'typebox'
import type { AppCode, CellCode, Surface } from './errors.ts'

/** Tool names: App, "Principal". */
export const TOOLS = ['exec', 'files', 'pty', 'process', 'git', 'browser'] as const
export type Tool = (typeof TOOLS)[number]

/**
 * Who may call:
 * - none: anyone;
 * - principal: a project API key or a person's session;
 * - person: a person's session only (an API key gets 403);
 * - tool_token: the gateway; `tool` says which tool the token must include, 'any' asks for none.
 */
export type Auth = 'none' | 'principal' | 'person' | 'tool_token'

/** One answer that a route may give. `schema` is absent where there is no body, or where it is raw bytes. */
export interface Answer {
  schema?: TSchema
  content_type?: string
  headers?: Record<string, string> // name -> what it says
  description: string
}

/** A code with the reasons that this route may answer beside it: [] = without reason, null in a list = without reason too. */
export type RouteErrors<C extends string> = Partial<Record<C, readonly (string | null)[]>>

interface RouteOf<S extends Surface, C extends string> {
  surface: S
  id: string // '<noun>.<verb>': the file service/<surface>/<noun>/<verb>.ts handles it
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  path: string // OpenAPI style: /v1/workspaces/{workspace_id}
  summary: string
  auth: Auth
  tool?: Tool | 'any'
  /** On the gateway: for workspaces of this mode. Any other refuses it, whatever its state, and is not woken. Absent: of every mode. */
  mode?: 'file_first'
  /** Accepts Idempotency-Key: the routes marked (I). */
  idempotent?: boolean
  /** Honours `Prefer: wait`. */
  waits?: boolean
  params?: TSchema
  query?: TSchema
  /** 'bytes': the body is a raw stream, not read by the pipeline. Absent: no body, or `{}`. */
  body?: TSchema | 'bytes'
  body_optional?: boolean
  body_bytes_max?: number
  /** A WebSocket: what either side says, one JSON text a message. Refusals are messages too; `errors` names them all the same. */
  websocket?: { client: TSchema; server: TSchema }
  answers: Record<number, Answer>
  errors: RouteErrors<C>
}

export type AppRoute = RouteOf<'app', AppCode>
export type CellRoute = RouteOf<'cell', CellCode>
export type Route = AppRoute | CellRoute

type StaticOr<T, Otherwise> = T extends TSchema ? Static<T> : Otherwise

/** What a handler gets, typed by its route's declaration. */
export interface Parsed<R extends Route> {
  params: StaticOr<R['params'], Record<string, never>>
  query: StaticOr<R['query'], Record<string, never>>
  body: StaticOr<R['body'], undefined>
}

/** Declares a route and keeps its exact type. Errors that every route of its surface may answer are added by the pipeline's own list. */
export function appRoute<const R extends Omit<AppRoute, 'surface'>>(route: R): R & { surface: 'app' } {
  return { surface: 'app', ...route }
}

export function cellRoute<const R extends Omit<CellRoute, 'surface'>>(route: R): R & { surface: 'cell' } {
  return { surface: 'cell', ...route }
}
