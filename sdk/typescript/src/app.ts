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

export function createApp({ url, apiKey, fetch, project, organization, onAnswer, notices }: AppOptions): App {
  let who: Promise<Principal> | undefined
  const contact: ConnectionState = { is_made: false, notices }
  const target = () => ({ url, token: apiKey })
  const app: App = {
    url,
    fetch,
    contact,
    call: <T>(request: Request, options?: CallOptions) => app.send<T>(request, deadlineFor(options), read),
    async send(request, deadline, read) {
      const answer = await send(fetch, { request, target, deadline, read, repair, contact })
      onAnswer()
      return answer
    },
    async ended(operation_id, deadline, seen) {
      const wait = notices.begin()
      wait.because(seen && capacityNotice(seen))
      try {
        for (let attempt = 0; ; attempt += 1) {
          const asked = { method: 'GET', path: `/v1/operations/${operation_id}`, headers: PREFER_WAIT }
          const { operation, has_waited } = await app.send(asked, deadline, async (response) => ({
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
    },
    async succeeded(operation, deadline) {
      const last = operation.completed_at === null ? await app.ended(operation.id, deadline, operation) : operation
      if (last.state !== 'succeeded') throw new OperationError(last)
      return last
    },
    me() {
      who ??= app.call<Principal>({ method: 'GET', path: '/v1/me' }).catch((error: unknown) => {
        who = undefined
        throw error
      })
      return who
    },
    async projectId() {
      if (project !== undefined) return project
      const { api_key } = await app.me()
      if (api_key) return api_key.project_id
      const path = `/v1/organizations/${await app.organizationId()}/projects`
      const { data } = await app.call<{ data: { id: string; name: string }[] }>({ method: 'GET', path, query: { limit: CHOICES_MAX } })
      return onlyOne(data, 'project')
    },
    async personsProjectId() {
      return project ?? (apiKey.startsWith(SESSION_PREFIX) ? app.projectId() : undefined)
    },
    async organizationId() {
      if (organization !== undefined) return organization
      const { api_key, memberships } = await app.me()
      if (api_key) return api_key.organization_id
      return onlyOne(
        memberships.map(({ organization_id: id, organization_name: name }) => ({ id, name })),
        'organization',
      )
    },
  }
  /** Waits for the operation that a refusal names; then the request may be repeated. */
  const repair = async (error: BerthError, deadline: Deadline) => {
    if (error.status !== 409 || error.operationId === null || !error.retryable) return false
    await app.ended(error.operationId, deadline)
    return true
  }
  return app
}

const read = async <T>(response: Response): Promise<T> => (response.status === 204 ? (undefined as T) : readJson<T>(response))

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
