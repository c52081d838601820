import type { Static, TSchema } from 'typebox'
import type { Access } from './access.ts'
import type { AppCode, CellCode, Surface } from './errors.ts'
import type { Issue } from './schemas/error.ts'
import type { Mode } from './schemas/workspaces.ts'

export { TOOLS, type Tool } from './tools.ts'

/** One answer that a route may give. Without `schema` and `content` it has no body. */
export interface Answer {
  /** The body as `application/json`. */
  schema?: TSchema
  /** Bodies of other types, by content type: the schema of the whole, or of each event or line of a stream; null: raw bytes or text. */
  content?: Readonly<Record<string, TSchema | null>>
  /** Name to what it says. `Cache-Control` is no-store where it is not said. */
  headers?: Record<string, string>
  description: string
}

/** Everything that an answer may be, by content type; empty where it has no body. */
export function contentOf({ schema, content = {} }: Answer): Readonly<Record<string, TSchema | null>> {
  return schema === undefined ? content : { 'application/json': schema, ...content }
}

/** A code with the reasons that a route may answer beside it; null among them: the code alone (`ALONE` where it is all). Never empty. */
export type RouteErrors<C extends string> = Partial<Record<C, readonly (string | null)[]>>

interface RouteOf<S extends Surface, C extends string> {
  surface: S
  id: string // '<noun>.<verb>': the file service/<surface>/<noun>/<verb>.ts handles it
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  path: string // OpenAPI style: /v1/workspaces/{workspace_id}
  /**
   * Further paths of the same route, each by a name that its operation id in OpenAPI ends with. `params` describes the names of all of
   * them: one that only some of the paths have is optional there.
   */
  aliases?: Readonly<Record<string, string>>
  summary: string
  access: Access
  /** Accepts Idempotency-Key: the routes marked (I). */
  idempotent?: boolean
  /** Honours `Prefer: wait`. */
  waits?: boolean
  /** Takes a right away. The answer leaves when that holds: on the computer of the workspace, on those of the project, or on all. */
  revokes?: 'workspace' | 'project' | 'everywhere'
  params?: TSchema
  query?: TSchema
  /** Request headers that mean something to this route alone, by name; others may come beside them. */
  headers?: TSchema
  /** 'bytes': the body is a raw stream, not read by the pipeline. Absent: no body, or `{}`. */
  body?: TSchema | 'bytes'
  body_optional?: boolean
  /** Judges the body in the place of its schema, which then only describes it: all that is wrong with it, each with a reason. */
  check_body?: (body: unknown) => Issue[]
  body_bytes_max?: number
  /** A WebSocket: what either side says, one JSON text a message. Refusals are messages too; `errors` names them all the same. */
  websocket?: { client: TSchema; server: TSchema }
  answers: Record<number, Answer>
  errors: RouteErrors<C>
}

export type AppRoute = RouteOf<'app', AppCode>
/** What a call of the gateway does with its workspace: by these the gate treats it. */
interface WorkspaceUse {
  /** Modes of the workspaces that it serves; absent: every mode. Any other refuses it, whatever its state, and is not woken. */
  modes?: readonly Mode[]
  /** asked: a parked machine is woken, and then answers. woken: it is woken and not asked. Absent: it is left as it is. */
  machine?: 'asked' | 'woken'
  /** Follows something to its end, however long that takes: it counts as a stream and not as a call. */
  streams?: true
  /** Answered from the disk where the machine sleeps, which stays asleep. */
  reads_disk?: true
  /** Answered from the tree where the workspace is file-first and has no machine. */
  tree?: true
  /** Changes nothing although it is no GET. */
  read_only?: true
}

export type CellRoute = RouteOf<'cell', CellCode> & WorkspaceUse
export type Route = AppRoute | CellRoute

export function serves({ modes }: Pick<CellRoute, 'modes'>, mode: Mode): boolean {
  return modes === undefined || modes.includes(mode)
}

/** Whether a call changes nothing, and so is served while a snapshot is captured. What comes in on a WebSocket changes things. */
export function isReadOnly({ method, websocket, read_only }: Pick<CellRoute, 'method' | 'websocket' | 'read_only'>): boolean {
  return read_only === true || (method === 'GET' && websocket === undefined)
}

/** The paths of a route, its own first. `name` is what the route is called at this path. */
export function pathsOf({ id, path, aliases = {} }: Pick<Route, 'id' | 'path' | 'aliases'>): { name: string; path: string }[] {
  return [{ name: id, path }, ...Object.entries(aliases).map(([suffix, other]) => ({ name: `${id}.${suffix}`, path: other }))]
}

/** Names of the parameters that stand in a path, in their order. */
export function namesIn(path: string): string[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name)
}

/** What a path looks like: matches every address of it, and no other path's of the same length in segments unless a parameter stands for it. */
export function patternOf(path: string): RegExp {
  return new RegExp(`^${path.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]+')}$`)
}

type StaticOr<T, Otherwise> = T extends TSchema ? Static<T> : Otherwise

/** What a handler gets, typed by its route's declaration. */
export interface Parsed<R extends Route> {
  params: StaticOr<R['params'], Record<string, never>>
  query: StaticOr<R['query'], Record<string, never>>
  body: StaticOr<R['body'], undefined>
  named_headers: StaticOr<R['headers'], Record<string, never>>
}

/** Declares a route and keeps its exact type. Errors that every route of its surface may answer are added by the pipeline's own list. */
export function appRoute<const R extends Omit<AppRoute, 'surface'>>(route: R): R & { surface: 'app' } {
  return { surface: 'app', ...route }
}

export function cellRoute<const R extends Omit<CellRoute, 'surface'>>(route: R): R & { surface: 'cell' } {
  return { surface: 'cell', ...route }
}
