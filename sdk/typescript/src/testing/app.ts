import type { Operation, ToolToken, Workspace } from '../schemas.ts'
import { kill } from './guest.ts'
import { notFound, now, type DoubleWorkspace, Refused, type State } from './state.ts'

export const API_KEY = 'sfk_double_0000'
const ORGANIZATION = '00000000-0000-7000-8000-00000000000a'
export const PROJECT = '00000000-0000-7000-8000-00000000000b'

interface Asked {
  method: string
  path: string
  query: URLSearchParams
  json: Record<string, unknown>
}
interface Answer {
  status: number
  body?: unknown
}

export function answerApp(state: State, asked: Asked): Answer {
  const { method, path, json, query } = asked
  const [, , noun = '', id = '', verb = '', sub = ''] = path.split('/')
  if (path === '/v1/me') return { status: 200, body: me() }
  if (path === '/v1/client-versions') return { status: 200, body: { clients: [] } }
  if (noun === 'projects' && verb === 'secrets') return secrets(state, method, json)
  if (noun === 'operations') return { status: 200, body: found(state.operations.get(id), 'The operation') }
  if (path === '/v1/workspaces/open') return open(state, json)
  if (path === '/v1/workspaces') return { status: 200, body: page(state, query) }
  if (noun !== 'workspaces') throw notFound('The route')
  const place = found(state.places.get(id), 'The workspace')
  return ofWorkspace(state, place, { ...asked, path: `${verb}${sub === '' ? '' : `/${sub}`}` })
}

function ofWorkspace(state: State, place: DoubleWorkspace, { method, path, json }: Asked): Answer {
  const answer = WORKSPACE_ROUTES[`${method} ${path}`]
  if (answer !== undefined) return answer(state, place, json)
  const [noun, id = ''] = path.split('/')
  if (method !== 'DELETE' || noun !== 'checkpoints') throw notFound('The double knows no such route: it')
  if (!place.checkpoints.delete(id)) throw notFound('The checkpoint', 'checkpoint_not_found')
  return { status: 204 }
}

/** Routes below `/v1/workspaces/{workspace_id}/`, as method and rest of the path. */
const WORKSPACE_ROUTES: Readonly<Record<string, (state: State, place: DoubleWorkspace, json: Asked['json']) => Answer>> = {
  'GET ': (_state, { view }) => ({ status: 200, body: view }),
  'DELETE ': deleteIt,
  'POST suspend'(state, place) {
    if (place.view.observed_state !== 'running') throw new Refused(409, 'conflict', 'It does not run', { reason: 'not_running' })
    move(place.view, 'suspended')
    return done(state, place, 'suspend')
  },
  'POST resume'(state, { view }) {
    if (view.observed_state === 'suspended') move(view, 'running')
    return { status: 200, body: { workspace: view, operation: null, cell_endpoint: state.url, tool_token: token(state, view) } }
  },
  'POST tool-tokens': (state, { view }) => ({ status: 201, body: token(state, view) }),
  'POST close': deleteIt,
  'POST reset'(state, place) {
    replaceFiles(place, new Map())
    return done(state, place, 'reset')
  },
  'PUT idle-policy'(_state, { view }, json) {
    Object.assign(view, { idle_policy: json['idle_policy'] })
    return { status: 200, body: view }
  },
  'POST suspend-when-idle': (_state, { view }, json) => ({
    status: 202,
    body: { workspace: view, operation: null, suspend_request: { after_seconds: json['after_seconds'] } },
  }),
  'DELETE suspend-when-idle': (_state, { view }) => ({ status: 200, body: view }),
  'POST snapshot'(state, place, json) {
    const checkpoint_id = crypto.randomUUID()
    place.checkpoints.set(checkpoint_id, { files: new Map(place.files), label: (json['label'] as string | undefined) ?? null })
    return done(state, place, 'snapshot', { checkpoint_id })
  },
  'GET checkpoints': (_state, { view, checkpoints }) => ({
    status: 200,
    body: { data: [...checkpoints].map(([id, { label }]) => ({ id, label, workspace_id: view.id })), next_cursor: null },
  }),
  'POST restore'(state, place, json) {
    const kept = place.checkpoints.get(String(json['checkpoint_id']))
    if (!kept) throw notFound('The checkpoint', 'checkpoint_not_found')
    replaceFiles(place, new Map(kept.files))
    return done(state, place, 'restore')
  },
  'POST adopt'(state, place, json) {
    const fork = state.places.get(String(json['fork_workspace_id']))
    if (!fork) throw notFound('The fork')
    replaceFiles(place, new Map(fork.files))
    if (json['delete_fork'] === true) move(fork.view, 'deleted')
    return done(state, place, 'adopt', { recovery_checkpoint_id: crypto.randomUUID() })
  },
  'POST fork'(state, place, json) {
    const fork = createPlace(state, String(json['key']), place.view)
    fork.files = new Map(place.files)
    return { status: 202, body: { operation: operation(state, fork.view.id, 'fork'), workspace: fork.view } }
  },
  'GET operations': (state, { view }) => ({
    status: 200,
    body: {
      data: [...state.operations.values()].filter(({ workspace_id }) => workspace_id === view.id).toReversed(),
      next_cursor: null,
    },
  }),
}

function done(state: State, { view }: DoubleWorkspace, kind: string, result: object | null = null): Answer {
  return { status: 202, body: operation(state, view.id, kind, result) }
}

function deleteIt(state: State, place: DoubleWorkspace): Answer {
  end(place)
  return done(state, place, 'delete')
}

function replaceFiles(place: DoubleWorkspace, files: DoubleWorkspace['files']): void {
  place.files = files
  place.view.ownership_epoch += 1
}

function open(state: State, json: Record<string, unknown>): Answer {
  const key = String(json['key'])
  let place = [...state.places.values()].find(({ view }) => view.key === key)
  if (place?.view.observed_state === 'deleted') throw new Refused(409, 'conflict', 'It was deleted', { reason: 'workspace_deleted' })
  if (json['template'] !== 'base') throw notFound('The template')
  place ??= createPlace(state, key, json)
  if (place.view.observed_state === 'suspended') move(place.view, 'running')
  return { status: 200, body: { workspace: place.view, operation: null, cell_endpoint: state.url, tool_token: token(state, place.view) } }
}

function createPlace(
  state: State,
  key: string,
  { mode = 'processful', lifetime = 'persistent' }: { mode?: unknown; lifetime?: unknown },
): DoubleWorkspace {
  if ([...state.places.values()].some(({ view }) => view.key === key))
    throw new Refused(409, 'conflict', 'The key is in use', { reason: 'key_in_use' })
  const is_tree = mode === 'file_first'
  const view = {
    id: crypto.randomUUID(),
    organization_id: ORGANIZATION,
    project_id: PROJECT,
    key,
    observed_state: 'running',
    desired_state: 'running',
    ready: true,
    template: { slug: 'base', version: 1 },
    active_operation: null,
    lifetime,
    purpose: 'standard',
    mode,
    tree_revision: is_tree ? 0 : null,
    ownership_epoch: 1,
    cell_endpoint: state.url,
    created_at: now(),
    updated_at: now(),
    deleted_at: null,
  } as unknown as Workspace
  const place: DoubleWorkspace = {
    view,
    files: new Map(),
    sessions: new Map(),
    terminals: new Map(),
    executions: new Map(),
    written: new Map(),
    checkpoints: new Map(),
  }
  state.places.set(view.id, place)
  return place
}

function end({ view, sessions, terminals }: DoubleWorkspace): void {
  for (const session of [...sessions.values(), ...terminals.values()]) if (session.record.state === 'running') kill(session, 'SIGKILL')
  move(view, 'deleted')
}

function move(view: Workspace, to: 'running' | 'suspended' | 'deleted'): void {
  Object.assign(view, { observed_state: to, desired_state: to, ready: to === 'running', deleted_at: to === 'deleted' ? now() : null })
  view.ownership_epoch += 1
}

function operation(state: State, workspace_id: string, kind: string, result: object | null = null): Operation {
  const at = now()
  const times = { created_at: at, updated_at: at, started_at: at, completed_at: at }
  const made = {
    id: crypto.randomUUID(),
    kind,
    state: 'succeeded',
    state_reason: null,
    workspace_id,
    ...times,
    error: null,
    result,
    input: {},
  } as unknown as Operation
  state.operations.set(made.id, made)
  return made
}

function token(state: State, { id, ownership_epoch }: Workspace): ToolToken {
  const at = Date.now()
  return {
    token: `double.${id}.${ownership_epoch}`,
    token_type: 'Bearer',
    issued_at: new Date(at).toISOString(),
    expires_at: new Date(at + 900_000).toISOString(),
    workspace_id: id,
    ownership_epoch,
    cell_endpoint: state.url,
  } as ToolToken
}

function page(state: State, query: URLSearchParams): object {
  const prefix = query.get('key_prefix') ?? ''
  const all = [...state.places.values()].map(({ view }) => view).filter((view) => view.key.startsWith(prefix) && view.deleted_at === null)
  const [from, limit] = [Number(query.get('cursor') ?? 0), Number(query.get('limit') ?? 50)]
  return { data: all.slice(from, from + limit), next_cursor: from + limit < all.length ? String(from + limit) : null }
}

function secrets(state: State, method: string, { value: _never_told, ...json }: Record<string, unknown>): Answer {
  if (method === 'GET') return { status: 200, body: { data: [...state.secrets.values()], next_cursor: null } }
  const name = String(json['name'])
  if (state.secrets.has(name)) throw new Refused(409, 'conflict', 'The name is taken', { reason: 'name_taken' })
  const secret = { ...json, id: crypto.randomUUID(), name }
  state.secrets.set(name, secret)
  return { status: 201, body: secret }
}

function me(): object {
  const api_key = {
    id: ORGANIZATION,
    key_id: 'double',
    organization_id: ORGANIZATION,
    project_id: PROJECT,
    tool_permissions: ['exec', 'files', 'pty'],
  }
  return { type: 'api_key', user: null, memberships: [], api_key }
}

function found<T>(value: T | undefined, what: string): T {
  if (value === undefined) throw notFound(what)
  return value
}
