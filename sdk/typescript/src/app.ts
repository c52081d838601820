import { DeadlineError, OperationError, type BerthError } from './errors.ts'
import { pause, waitBefore, type Deadline } from './retry.ts'
import type { Operation, Principal } from './schemas.ts'
import { type CallOptions, type ConnectionState, deadlineFor, type Fetch, type Read, readJson, type Request, send } from './transport.ts'
import { capacityNotice, type Notices } from './waiting.ts'

/** Default wait for an operation. */
export const OPERATION_MS = 16 * 60_000
/** Asks the server to hold an answer for up to 20 seconds. */
export const PREFER_WAIT = { prefer: 'wait=20' }

export interface App {
  readonly url: string
  readonly fetch: Fetch
  /** Shared by the tools of all workspaces, which the same service answers. */
  readonly contact: ConnectionState
  call<T>(request: Request, options?: CallOptions): Promise<T>
  send<T>(request: Request, deadline: Deadline, read: Read<T>): Promise<T>
  /** Waits until the operation has completed, with any result. */
  ended(operation_id: string, deadline: Deadline, seen?: Operation): Promise<Operation>
  /** Waits until the operation has succeeded; throws an OperationError when it ended otherwise. */
  succeeded(operation: Operation, deadline: Deadline): Promise<Operation>
  /** The caller's identity, requested once. */
  me(): Promise<Principal>
  projectId(): Promise<string>
  /** The project for a person's session, whose calls must name one. undefined: the credential is a project's own key. */
  personsProjectId(): Promise<string | undefined>
  organizationId(): Promise<string>
}

export interface AppOptions {
  url: string
  apiKey: string
  fetch: Fetch
  project: string | undefined
  organization: string | undefined
  onAnswer: () => void
  notices: Notices
}

interface AppState extends AppOptions {
  contact: ConnectionState
  /** The caller's identity, once it was requested. */
  who: Promise<Principal> | undefined
}

export function createApp(options: AppOptions): App {
  const { url, fetch, notices } = options
  const state: AppState = { ...options, contact: { is_made: false, notices }, who: undefined }
  return {
    url,
    fetch,
    contact: state.contact,
    call: (request, asked) => call(state, request, asked),
    send: (request, deadline, read) => sendTo(state, request, deadline, read),
    ended: (operation_id, deadline, seen) => ended(state, operation_id, deadline, seen),
    succeeded: (operation, deadline) => succeeded(state, operation, deadline),
    me: () => me(state),
    projectId: () => projectId(state),
    personsProjectId: () => personsProjectId(state),
    organizationId: () => organizationId(state),
  }
}

function call<T>(state: AppState, request: Request, options?: CallOptions): Promise<T> {
  return sendTo<T>(state, request, deadlineFor(options), readBody)
}

async function sendTo<T>(state: AppState, request: Request, deadline: Deadline, read: Read<T>): Promise<T> {
  const { url, apiKey, fetch, contact } = state
  const target = () => ({ url, token: apiKey })
  const repair = (error: BerthError, until: Deadline) => awaitNamed(state, error, until)
  const answer = await send(fetch, { request, target, deadline, read, repair, contact })
  state.onAnswer()
  return answer
}

/** Waits for the operation that a refusal names; then the request may be repeated. */
async function awaitNamed(state: AppState, error: BerthError, deadline: Deadline): Promise<boolean> {
  if (error.status !== 409 || error.operationId === null || !error.retryable) return false
  await ended(state, error.operationId, deadline)
  return true
}

async function ended(state: AppState, operation_id: string, deadline: Deadline, seen?: Operation): Promise<Operation> {
  const wait = state.notices.begin()
  wait.because(seen && capacityNotice(seen))
  try {
    for (let attempt = 0; ; attempt += 1) {
      const asked = { method: 'GET', path: `/v1/operations/${operation_id}`, headers: PREFER_WAIT }
      const { operation, has_waited } = await sendTo(state, asked, deadline, async (response) => ({
        operation: await readJson<Operation>(response),
        has_waited: response.headers.has('preference-applied'),
      }))
      if (operation.completed_at !== null) return operation
      wait.because(capacityNotice(operation))
      if (!has_waited) await pause(waitBefore(attempt, null), deadline)
    }
  } catch (error) {
    if (!(error instanceof DeadlineError)) throw error
    const message = `The time for this call is over; operation ${operation_id} goes on: waitForOperation waits for it`
    throw new DeadlineError(message, { operation_id, cause: error })
  } finally {
    wait.end()
  }
}

async function succeeded(state: AppState, operation: Operation, deadline: Deadline): Promise<Operation> {
  const last = operation.completed_at === null ? await ended(state, operation.id, deadline, operation) : operation
  if (last.state !== 'succeeded') throw new OperationError(last)
  return last
}

function me(state: AppState): Promise<Principal> {
  state.who ??= call<Principal>(state, { method: 'GET', path: '/v1/me' }).catch((error: unknown) => {
    state.who = undefined
    throw error
  })
  return state.who
}

async function projectId(state: AppState): Promise<string> {
  if (state.project !== undefined) return state.project
  const { api_key } = await me(state)
  if (api_key) return api_key.project_id
  const path = `/v1/organizations/${await organizationId(state)}/projects`
  const asked = { method: 'GET', path, query: { limit: CHOICES_MAX } }
  const { data } = await call<{ data: { id: string; name: string }[] }>(state, asked)
  return onlyOne(data, 'project')
}

async function personsProjectId(state: AppState): Promise<string | undefined> {
  return state.project ?? (state.apiKey.startsWith(SESSION_PREFIX) ? projectId(state) : undefined)
}

async function organizationId(state: AppState): Promise<string> {
  if (state.organization !== undefined) return state.organization
  const { api_key, memberships } = await me(state)
  if (api_key) return api_key.organization_id
  return onlyOne(
    memberships.map(({ organization_id: id, organization_name: name }) => ({ id, name })),
    'organization',
  )
}

async function readBody<T>(response: Response): Promise<T> {
  return response.status === 204 ? (undefined as T) : readJson<T>(response)
}

const SESSION_PREFIX = 'sfu_'
const CHOICES_MAX = 10

/** Returns the only choice. Throws where there are several: the client picks none by itself. */
function onlyOne(choices: readonly { id: string; name: string }[], noun: 'project' | 'organization'): string {
  const [first, second] = choices
  if (first === undefined) throw new TypeError(`This person's session has no ${noun}`)
  if (second === undefined) return first.id
  const named = choices.slice(0, CHOICES_MAX).map(({ id, name }) => `${name} (${id})`)
  throw Object.assign(
    new TypeError(
      `Say which ${noun} is meant: set BERTH_${noun.toUpperCase()}, or give \`${noun}\` to the constructor. There are ${named.join(', ')}`,
    ),
    // The command line prints its own text from these fields.
    { choice_of: noun, named },
  )
}
