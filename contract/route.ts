import type { Static, TSchema } from 'typebox'
import type { Access } from './access.ts'
import type { AppCode, CellCode, Surface } from './errors.ts'
import type { Issue } from './schemas/error.ts'
import type { Mode } from './schemas/workspaces.ts'

export { TOOLS, type Tool } from './tools.ts'

export interface Answer {
  schema?: TSchema
  /** Bodies by content type. The schema describes the whole body, or each event or line of a stream; null: raw bytes or text. */
  content?: Readonly<Record<string, TSchema | null>>
  /** `Cache-Control` defaults to no-store. */
  headers?: Record<string, string>
  description: string
}

/** Empty: the answer has no body. */
export function contentOf({ schema, content = {} }: Answer): Readonly<Record<string, TSchema | null>> {
  return schema === undefined ? content : { 'application/json': schema, ...content }
}

/** null stands for the code without a reason. Lists are never empty. */
export type RouteErrors<C extends string> = Partial<Record<C, readonly (string | null)[]>>

interface RouteOf<S extends Surface, C extends string> {
  surface: S
  id: string // '<noun>.<verb>': handlers.ts of a folder maps the id to its handler
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  path: string // OpenAPI style: /v1/workspaces/{workspace_id}
  /** Further paths of the route, by the suffix of their operation id in OpenAPI. `params` covers all paths. */
  aliases?: Readonly<Record<string, string>>
  summary: string
  access: Access
  /** Repeats get the first answer (routes marked (I)). */
  idempotent?: boolean
  /** The route supports `Prefer: wait`. */
  waits?: boolean
  /** Which hosts must apply the revocation before the answer: the workspace's host, the hosts of the project, or all. */
  revokes?: 'workspace' | 'project' | 'everywhere'
  params?: TSchema
  query?: TSchema
  headers?: TSchema
  /** 'bytes': a raw stream that the pipeline does not read. Absent: the route accepts no body, or `{}`. */
  body?: TSchema | 'bytes'
  body_optional?: boolean
  /** Checks the body instead of the schema, which then only documents it. */
  check_body?: (body: unknown) => Issue[]
  body_bytes_max?: number
  /** Refusals are sent as messages, too. `errors` still lists them. */
  websocket?: { client: TSchema; server: TSchema }
  answers: Record<number, Answer>
  errors: RouteErrors<C>
}

export type AppRoute = RouteOf<'app', AppCode>
interface WorkspaceUse {
  /** Modes that the route serves; absent: all. Others are refused in any state, without waking the machine. */
  modes?: readonly Mode[]
  /** asked: wakes a parked machine and sends it the call. woken: wakes the machine only. Absent: does not wake it. */
  machine?: 'asked' | 'woken'
  /** The answer continues as long as the object that it follows exists. */
  streams?: true
  /** Answered from the disk of a sleeping machine, without waking it. */
  reads_disk?: true
  /** Answered from the tree of a file-first workspace, without a machine. */
  tree?: true
  /** The route changes nothing, although its method is not GET. */
  read_only?: true
}

export type CellRoute = RouteOf<'cell', CellCode> & WorkspaceUse
export type Route = AppRoute | CellRoute

export function serves({ modes }: Pick<CellRoute, 'modes'>, mode: Mode): boolean {
  return modes === undefined || modes.includes(mode)
}

/** Read-only routes are served during a capture. Messages of a WebSocket may change the workspace. */
export function isReadOnly({ method, websocket, read_only }: Pick<CellRoute, 'method' | 'websocket' | 'read_only'>): boolean {
  return read_only === true || (method === 'GET' && websocket === undefined)
}

export function pathsOf({ id, path, aliases = {} }: Pick<Route, 'id' | 'path' | 'aliases'>): { name: string; path: string }[] {
  return [{ name: id, path }, ...Object.entries(aliases).map(([suffix, other]) => ({ name: `${id}.${suffix}`, path: other }))]
}

export function namesIn(path: string): string[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name)
}

export function patternOf(path: string): RegExp {
  return new RegExp(`^${path.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]+')}$`)
}

type StaticOr<T, Otherwise> = T extends TSchema ? Static<T> : Otherwise

export interface Parsed<R extends Route> {
  params: StaticOr<R['params'], Record<string, never>>
  query: StaticOr<R['query'], Record<string, never>>
  body: StaticOr<R['body'], undefined>
  named_headers: StaticOr<R['headers'], Record<string, never>>
}

/** `errors` omits the errors that conventions imply: route-errors.ts adds them. */
export function appRoute<const R extends Omit<AppRoute, 'surface'>>(route: R): R & { surface: 'app' } {
  return { surface: 'app', ...route }
}

export function cellRoute<const R extends Omit<CellRoute, 'surface'>>(route: R): R & { surface: 'cell' } {
  return { surface: 'cell', ...route }
}

export type RoutesById<Exports, S extends Surface> = {
  [R in Extract<Exports[keyof Exports], { surface: S; id: string }> as R['id']]: R
}

export function routesIn<S extends Surface>(
  exports: Readonly<Record<string, unknown>>,
  surface: S,
): readonly Extract<Route, { surface: S }>[] {
  const isRoute = (value: unknown): value is Extract<Route, { surface: S }> =>
    typeof value === 'object' && value !== null && 'id' in value && 'surface' in value && value.surface === surface
  return Object.values(exports).filter(isRoute)
}
