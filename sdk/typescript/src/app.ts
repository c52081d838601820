import { DeadlineError, OperationError, type BerthError } from './errors.ts'
import { pause, waitBefore, type Deadline } from './retry.ts'
import type { Operation, Principal } from './schemas.ts'
import { type CallOptions, type Contact, deadlineFor, type Fetch, type Read, readJson, type Request, send } from './transport.ts'
import { capacityNotice, type Notices } from './waiting.ts'

/** Of the application API, which an operation that is waited for belongs to. */
export const OPERATION_MS = 16 * 60_000
/** The server holds an answer for so long. */
export const PREFER_WAIT = { prefer: 'wait=20' }

/** The application API: one address, one credential. */
export interface App {
  readonly url: string
  readonly fetch: Fetch
  /** Shared by the tools of all workspaces: one service answers them all. */
  readonly contact: Contact
  call<T>(request: Request, options?: CallOptions): Promise<T>
  send<T>(request: Request, deadline: Deadline, read: Read<T>): Promise<T>
  /** Returns when it is over, however it ended. */
  ended(operation_id: string, deadline: Deadline, seen?: Operation): Promise<Operation>
  /** Returns when it has succeeded; throws an OperationError when it ended otherwise. */
  succeeded(operation: Operation, deadline: Deadline): Promise<Operation>
  /** Who calls. Asked once. */
  me(): Promise<Principal>
  projectId(): Promise<string>
  /** Of a person, whose call has to name a project. undefined: the credential is a project's own key. */
  personsProjectId(): Promise<string | undefined>
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
  notices: Notices
}

export function createApp({ url, apiKey, fetch, project, organization, onAnswer, notices }: AppOptions): App {
  let who: Promise<Principal> | undefined
  const contact: Contact = { is_made: false, notices }
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

const SESSION_PREFIX = 'sfu_'
const CHOICES_MAX = 10

/** A person may belong to several. The client chooses none of them. */
function onlyOne(choices: readonly { id: string; name: string }[], noun: 'project' | 'organization'): string {
  const [first, second] = choices
  if (first === undefined) throw new TypeError(`This person's session has no ${noun}`)
  if (second === undefined) return first.id
  const named = choices.slice(0, CHOICES_MAX).map(({ id, name }) => `${name} (${id})`)
  throw Object.assign(
    new TypeError(
      `Say which ${noun} is meant: set BERTH_${noun.toUpperCase()}, or give \`${noun}\` to the constructor. There are ${named.join(', ')}`,
    ),
    // The command line says the same in words of a shell.
    { choice_of: noun, named },
  )
}
