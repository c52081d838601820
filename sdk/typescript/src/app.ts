import { OperationError, type BerthError } from './errors.ts'
import { pause, waitBefore, type Deadline } from './retry.ts'
import type { Operation, Principal } from './schemas.ts'
import { type CallOptions, deadlineFor, type Fetch, type Read, readJson, type Request, send } from './transport.ts'

/** Of the application API, which an operation that is waited for belongs to. */
export const OPERATION_MS = 16 * 60_000
/** The server holds an answer for so long. */
export const PREFER_WAIT = { prefer: 'wait=20' }

/** The application API: one address, one credential. */
export interface App {
  readonly url: string
  readonly fetch: Fetch
  call<T>(request: Request, options?: CallOptions): Promise<T>
  send<T>(request: Request, deadline: Deadline, read: Read<T>): Promise<T>
  /** Returns when it is over, however it ended. */
  ended(operation_id: string, deadline: Deadline): Promise<Operation>
  /** Returns when it has succeeded; throws an OperationError when it ended otherwise. */
  succeeded(operation: Operation, deadline: Deadline): Promise<Operation>
  /** Who calls. Asked once. */
  me(): Promise<Principal>
  projectId(): Promise<string>
  organizationId(): Promise<string>
}

export interface AppOptions {
  url: string
  apiKey: string
  fetch: Fetch
  project: string | undefined
  organization: string | undefined
  /** Told after each call that was answered. */
  onAnswer: () => void
}

export function createApp({ url, apiKey, fetch, project, organization, onAnswer }: AppOptions): App {
  let who: Promise<Principal> | undefined
  const target = () => ({ url, token: apiKey })
  const app: App = {
    url,
    fetch,
    call: <T>(request: Request, options?: CallOptions) => app.send<T>(request, deadlineFor(options), read),
    async send(request, deadline, read) {
      const answer = await send(fetch, { request, target, deadline, read, repair })
      onAnswer()
      return answer
    },
    async ended(operation_id, deadline) {
      for (let attempt = 0; ; attempt += 1) {
        const asked = { method: 'GET', path: `/v1/operations/${operation_id}`, headers: PREFER_WAIT }
        const { operation, has_waited } = await app.send(asked, deadline, async (response) => ({
          operation: await readJson<Operation>(response),
          has_waited: response.headers.has('preference-applied'),
        }))
        if (operation.completed_at !== null) return operation
        if (!has_waited) await pause(waitBefore(attempt, null), deadline)
      }
    },
    async succeeded(operation, deadline) {
      const last = operation.completed_at === null ? await app.ended(operation.id, deadline) : operation
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
      return project ?? known((await app.me()).api_key?.project_id, 'project')
    },
    async organizationId() {
      if (organization !== undefined) return organization
      const { api_key, memberships } = await app.me()
      return known(api_key?.organization_id ?? memberships[0]?.organization_id, 'organization')
    },
  }
  /** A refusal that names an operation is over when that operation is. */
  const repair = async (error: BerthError, deadline: Deadline) => {
    if (error.status !== 409 || error.operationId === null || !error.retryable) return false
    await app.ended(error.operationId, deadline)
    return true
  }
  return app
}

/** Of an answer that may have no body. */
const read = async <T>(response: Response): Promise<T> => (response.status === 204 ? (undefined as T) : readJson<T>(response))

function known(id: string | undefined, what: string): string {
  if (id === undefined) throw new TypeError(`A person's session belongs to no ${what} alone: give \`${what}\` to the constructor`)
  return id
}
