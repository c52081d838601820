import { type App, createApp, OPERATION_MS } from './app.ts'
import { withCaps } from './caps.ts'
import { BerthError, DeadlineError } from './errors.ts'
import type { ReopenOptions } from './gateway.ts'
import { type List, listOf } from './list.ts'
import { egressOf, keysOf, membersOf, organizationsOf, projectsOf, secretsOf, usageOf, volumesOf, type WorkspaceQuery } from './nouns.ts'
import type { Deadline } from './retry.ts'
import type {
  Caps,
  ClientVersions,
  Feedback,
  FeedbackCreate,
  OpenRequest,
  OpenResponse,
  Operation,
  Principal,
  Workspace as View,
} from './schemas.ts'
import { templatesOf } from './templates.ts'
import { type CallOptions, deadlineFor, type Fetch, readJson } from './transport.ts'
import { checkVersionOnce } from './version-check.ts'
import { noticesTo } from './waiting.ts'
import { Workspace } from './workspace.ts'

export interface BerthOptions {
  /** Address of the API. Default: BERTH_URL, else http://127.0.0.1:8080. */
  url?: string
  /** A project's key `sfk_…`, or a person's session `sfu_…`. Default: BERTH_API_KEY. */
  apiKey?: string
  /** For a person's session: the project of calls that name none. Default: BERTH_PROJECT, else the person's only project. */
  project?: string
  /** For a person's session: the organization of calls that name none. Default: BERTH_ORGANIZATION, else the person's only one. */
  organization?: string
  /** Replaces the platform's fetch. The library then does not check whether the service supports its version. */
  fetch?: Fetch
  /** false: do not check whether the service supports this version, as BERTH_NO_VERSION_CHECK does. */
  versionCheck?: boolean
  /** For terminals. Default: the platform's own, or that of the package `ws` on Node.js before 22. */
  WebSocket?: typeof WebSocket
  /**
   * Called once for each wait of more than 2 seconds, for capacity or an unanswering service. Also called for options that an open
   * ignores on an existing workspace. Default: console.warn. null: no notices.
   */
  onNotice?: ((text: string) => void) | null
}

export interface OpenOptions extends Omit<OpenRequest, 'key' | 'template'>, Caps, CallOptions {
  /** Template of a new workspace. Default: `base`. */
  template?: string
  /** True if calls resume the workspace when it is suspended. Default: true. */
  wake?: boolean
}

/** A client of one service, with one credential. */
export class Berth {
  readonly url: string
  readonly secrets: ReturnType<typeof secretsOf>
  readonly volumes: ReturnType<typeof volumesOf>
  readonly egress: ReturnType<typeof egressOf>
  readonly templates: ReturnType<typeof templatesOf>
  readonly usage: ReturnType<typeof usageOf>
  readonly organizations: ReturnType<typeof organizationsOf>
  readonly projects: ReturnType<typeof projectsOf>
  readonly members: ReturnType<typeof membersOf>
  readonly keys: ReturnType<typeof keysOf>
  readonly #app: App
  readonly #socket: typeof WebSocket | null
  readonly #tell: ((text: string) => void) | null

  constructor(options: BerthOptions = {}) {
    const { url, apiKey, project, organization, fetch, WebSocket: socket = null, onNotice = warn } = options
    const { versionCheck = fetch === undefined } = options
    this.url = (url ?? variable('BERTH_URL') ?? 'http://127.0.0.1:8080').replace(/\/+$/, '')
    const key = apiKey ?? variable('BERTH_API_KEY')
    if (!key) throw new TypeError('An API key is needed: give `apiKey`, or set BERTH_API_KEY')
    const onAnswer = () => {
      if (versionCheck) checkVersionOnce(this.url)
    }
    const app = createApp({
      url: this.url,
      apiKey: key,
      fetch: fetch ?? globalThis.fetch.bind(globalThis),
      project: project ?? variable('BERTH_PROJECT'),
      organization: organization ?? variable('BERTH_ORGANIZATION'),
      onAnswer,
      notices: noticesTo(onNotice),
    })
    this.#app = app
    this.#tell = onNotice
    this.#socket = socket
    this.secrets = secretsOf(app)
    this.volumes = volumesOf(app)
    this.egress = egressOf(app)
    this.templates = templatesOf(app, (id, options) => this.workspace(id, options))
    this.usage = usageOf(app)
    this.organizations = organizationsOf(app)
    this.projects = projectsOf(app)
    this.members = membersOf(app)
    this.keys = keysOf(app)
  }

  /** Opens a workspace by key: creates it on first use, else finds, resumes or restarts it. Returns when it is ready. */
  async open(key: string, { wake = true, signal, waitMs, ...given }: OpenOptions = {}): Promise<Workspace> {
    const deadline = deadlineFor({ signal, waitMs }, OPERATION_MS)
    const { project_id = await this.#app.personsProjectId(), ...asked } = withCaps(given)
    const request: OpenRequest = { key, template: 'base', ...asked, ...(project_id === undefined ? {} : { project_id }) }
    const { workspace, tool_token, ignored = [] } = await this.#opened(request, deadline)
    const unheeded = ignored.filter((name) => name !== 'template' || given.template !== undefined)
    if (unheeded.length > 0) this.#tell?.(ignoredOptionsNotice(key, unheeded, workspace))
    return this.#workspace(workspace, { open: request, agent_label: asked.agent_label, tools: asked.tools, wake }, tool_token)
  }

  /** Returns an existing workspace by id, without resuming it. */
  async workspace(id: string, { wake = true, ...options }: CallOptions & { wake?: boolean } = {}): Promise<Workspace> {
    const view = await this.#app.call<View>({ method: 'GET', path: `/v1/workspaces/${id}` }, options)
    return this.#workspace(view, { wake }, null)
  }

  /** Returns an existing workspace by key; null: there is none. */
  async find(key: string, { wake = true, ...options }: CallOptions & { wake?: boolean } = {}): Promise<Workspace | null> {
    for await (const view of this.workspaces({ key_prefix: key, lifetime: 'any', purpose: 'any' }, options))
      if (view.key === key) return this.#workspace(view, { wake }, null)
    return null
  }

  workspaces(query: WorkspaceQuery = {}, options?: CallOptions): List<View> {
    return listOf(this.#app, '/v1/workspaces', query, options)
  }

  operation(id: string, options?: CallOptions): Promise<Operation> {
    return this.#app.call({ method: 'GET', path: `/v1/operations/${id}` }, options)
  }

  /** Returns when the operation has completed, with any result. */
  waitForOperation(id: string, options?: CallOptions): Promise<Operation> {
    return this.#app.ended(id, deadlineFor(options, OPERATION_MS))
  }

  me(): Promise<Principal> {
    return this.#app.me()
  }

  clientVersions(options?: CallOptions): Promise<ClientVersions> {
    return this.#app.call({ method: 'GET', path: '/v1/client-versions' }, options)
  }

  /** Sends feedback to the operators of the service. */
  feedback(json: FeedbackCreate, options?: CallOptions): Promise<Feedback> {
    return this.#app.call({ method: 'POST', path: '/v1/feedback', json, repeats: 'keyed' }, options)
  }

  /** Calls any route of the application API. Retries a change only with `key`, which the routes marked so in the reference accept. */
  api<T = unknown>(
    method: string,
    path: string,
    {
      query,
      json,
      headers,
      key,
      ...options
    }: CallOptions & { query?: object; json?: unknown; headers?: Record<string, string>; key?: boolean | string } = {},
  ): Promise<T> {
    return this.#app.call<T>({ method, path, query, json, headers, key }, options)
  }

  async #opened(json: OpenRequest, deadline: Deadline): Promise<OpenResponse> {
    for (;;) {
      // A short wait: the operation of a longer open tells what it waits for.
      const request = { method: 'POST', path: '/v1/workspaces/open', json, headers: PREFER_SHORT_WAIT, key: true }
      const answer = await this.#app.send(request, deadline, readJson<OpenResponse>).catch((error: unknown) => {
        throw withReopenHint(error, json.key)
      })
      if (answer.operation === null || answer.operation.state === 'succeeded') {
        if (answer.tool_token !== null || answer.workspace.ready) return answer
      }
      if (answer.operation === null) throw new BerthError(NOT_READY)
      await this.#app.succeeded(answer.operation, deadline)
    }
  }

  #workspace(view: View, manner: ReopenOptions, token: OpenResponse['tool_token']): Workspace {
    return new Workspace(this.#app, this.#socket, view, manner, token)
  }
}

/** Replaces a deadline error: the open may have started without an answer, and the key finds it. */
function withReopenHint(error: unknown, key: string): unknown {
  if (!(error instanceof DeadlineError) || error.operationId !== null) return error
  return new DeadlineError(`The time for this call is over; the open of ${key} may go on: open the same key again`, { cause: error })
}

const PREFER_SHORT_WAIT = { prefer: 'wait=2' }
const NOT_READY = {
  status: 0,
  code: 'not_ready',
  message: 'The workspace is not ready, and nothing says why',
  retryable: true,
  request_id: null,
}

function variable(name: string): string | undefined {
  const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } }
  return process?.env?.[name] || undefined
}

function warn(text: string): void {
  const { console } = globalThis as { console?: { warn(text: string): void } }
  console?.warn(`berth: ${text}`)
}

function ignoredOptionsNotice(key: string, unheeded: readonly string[], { ceilings }: View): string {
  const { cpu_millis, memory_mib, disk_gib } = ceilings
  const sizes = unheeded.includes('caps') ? ` (it has cpu_millis ${cpu_millis}, memory_mib ${memory_mib}, disk_gib ${disk_gib})` : ''
  return `${key} does not have what this open asks for: ${unheeded.join(', ')}${sizes}`
}
