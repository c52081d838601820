import { type App, OPERATION_MS } from './app.ts'
import { withCaps } from './caps.ts'
import { Command, type CommandLine, type CommandResult, type ExecOptions, runCommand, startCommand } from './exec.ts'
import { type Files, filesOf } from './files.ts'
import { createGateway, type Gateway, type ReopenOptions } from './gateway.ts'
import { type List, listOf } from './list.ts'
import type { UsageQuery } from './nouns.ts'
import { portsOf } from './ports.ts'
import type {
  AgentSession,
  Caps,
  Checkpoint,
  EgressDenialList,
  EgressPolicyRequest,
  EgressVersion,
  Execution,
  ForkRequest,
  ListedCommand,
  ListedExecution,
  ListedTerminal,
  Operation,
  OperationAndWorkspace,
  SaveAsTemplateRequest,
  SaveAsTemplateResponse,
  SuspendWhenIdleResponse,
  TemplateBuild,
  ToolToken,
  UsageSeries,
  Volume,
  VolumeAttachment,
  VolumeAttachmentAndOperation,
  Workspace as View,
  WorkspaceEgressPolicy,
  WorkspaceInputs,
  WorkspaceOnly,
  WorkspaceSecrets,
} from './schemas.ts'
import { openTerminal, type ShellOptions, Terminal } from './shell.ts'
import { browserOf, callOf, changesOf, gitOf, idleOf, processesOf, treeOf } from './tools.ts'
import { type CallOptions, deadlineFor, type Request } from './transport.ts'

/** Options of a call that starts an operation. */
export interface OperationOptions extends CallOptions {
  /** false: returns when the operation is accepted, not when it has completed. */
  wait?: boolean
}

/** Query for a list of commands or terminals. */
export interface RunsQuery {
  /** `running`: not ended. `ended`: all others. Default: both. */
  state?: 'running' | 'ended'
  /** Items of one page. */
  limit?: number
}

/** One workspace: its tools and its lifecycle. */
export class Workspace implements AsyncDisposable {
  readonly id: string
  readonly files: Files
  readonly git: ReturnType<typeof gitOf>
  readonly browser: ReturnType<typeof browserOf>
  readonly processes: ReturnType<typeof processesOf>
  readonly changes: ReturnType<typeof changesOf>
  readonly tree: ReturnType<typeof treeOf>
  readonly idle: ReturnType<typeof idleOf>
  readonly ports: ReturnType<typeof portsOf>
  readonly #gateway: Gateway
  readonly #app: App
  readonly #socket: typeof WebSocket | null
  readonly #manner: ReopenOptions

  constructor(app: App, socket: typeof WebSocket | null, view: View, manner: ReopenOptions, token: ToolToken | null) {
    const gateway = createGateway(app, view, manner, token)
    this.id = view.id
    this.#gateway = gateway
    this.#app = app
    this.#socket = socket
    this.#manner = manner
    this.files = filesOf(gateway)
    this.git = gitOf(gateway)
    this.browser = browserOf(gateway)
    this.processes = processesOf(gateway)
    this.changes = changesOf(gateway)
    this.tree = treeOf(gateway)
    this.idle = idleOf(gateway)
    this.ports = portsOf(app, view.id)
  }

  get key(): string {
    return this.#gateway.view.key
  }

  /** The view as last read; `refresh` reads it again. */
  get view(): View {
    return this.#gateway.view
  }

  refresh(options?: CallOptions): Promise<View> {
    return this.#gateway.refresh(options)
  }

  /**
   * Runs a command and waits for its end: a program with arguments, or a line for `bash -lc`. Only an abort by `signal` cancels it;
   * otherwise it continues after the wait. To leave a command running, use `start`. A command of a file-first workspace cannot be
   * cancelled.
   */
  exec(command: CommandLine, options?: ExecOptions): Promise<CommandResult> {
    return runCommand(this.#gateway, command, options)
  }

  /** Starts a command that keeps running after the call, the connection and the program end. */
  start(command: CommandLine, options?: ExecOptions): Promise<Command> {
    return startCommand(this.#gateway, command, options)
  }

  /** Returns a command that was started before, by id. */
  command(session_id: string): Command {
    return new Command(this.#gateway, session_id)
  }

  /**
   * Lists commands, newest first: running ones, and the last 10,000 that ended. `ws.command(id)` returns one. A file-first workspace has
   * `ws.executions` instead.
   */
  commands(query: RunsQuery = {}, options?: CallOptions): List<ListedCommand> {
    return listOf(callOf(this.#gateway), '/exec', query, options)
  }

  /** Returns a command of a file-first workspace by `execution_id`. Records are kept for seven days. */
  execution(execution_id: string, options?: CallOptions): Promise<Execution> {
    return this.#gateway.call({ method: 'GET', path: `/executions/${encodeURIComponent(execution_id)}` }, options)
  }

  /** Lists the commands of a file-first workspace of the last seven days, newest first. */
  executions(query: RunsQuery = {}, options?: CallOptions): List<ListedExecution> {
    return listOf(callOf(this.#gateway), '/executions', query, options)
  }

  /** Opens a terminal, or reconnects to the one with this `session_id`. */
  shell(options?: ShellOptions): Promise<Terminal> {
    return openTerminal(this.#gateway, this.#socket, options)
  }

  /** Returns a terminal that was opened before. */
  terminal(session_id: string, { offset = 0 }: { offset?: number } = {}): Terminal {
    return new Terminal(this.#gateway, this.#socket, session_id, offset)
  }

  /** Lists terminals, newest first: open ones, and the last 1,000 that ended. */
  terminals(query: RunsQuery = {}, options?: CallOptions): List<ListedTerminal> {
    return listOf(callOf(this.#gateway), '/pty', query, options)
  }

  async suspend(options?: OperationOptions): Promise<Operation> {
    return this.#operate({ method: 'POST', path: '/suspend' }, options)
  }

  /** Resumes the workspace. Calls on it do so by themselves. */
  async resume(options?: CallOptions): Promise<View> {
    await this.#gateway.wake(deadlineFor(options, OPERATION_MS))
    return this.#gateway.view
  }

  suspendWhenIdle(after_seconds: number, options?: CallOptions): Promise<SuspendWhenIdleResponse> {
    return this.#call({ method: 'POST', path: '/suspend-when-idle', json: { after_seconds }, key: true }, options)
  }

  cancelSuspendWhenIdle(options?: CallOptions): Promise<View> {
    return this.#call({ method: 'DELETE', path: '/suspend-when-idle', repeats: 'keyed' }, options)
  }

  /** Sets `adaptive`, `never` or `fixed:<seconds>`; null: the template's policy. */
  setIdlePolicy(idle_policy: string | null, options?: CallOptions): Promise<View> {
    return this.#call({ method: 'PUT', path: '/idle-policy', json: { idle_policy } }, options)
  }

  /** Saves memory and disk in a checkpoint, named by `result.checkpoint_id`. */
  snapshot({ label, ...options }: OperationOptions & { label?: string } = {}): Promise<Operation> {
    return this.#operate({ method: 'POST', path: '/snapshot', json: label === undefined ? {} : { label } }, options)
  }

  checkpoints(options?: CallOptions): List<Checkpoint> {
    return listOf(this.#app, `${this.#path}/checkpoints`, {}, options)
  }

  deleteCheckpoint(checkpoint_id: string, options?: CallOptions): Promise<void> {
    return this.#call({ method: 'DELETE', path: `/checkpoints/${checkpoint_id}` }, options)
  }

  /** Goes back to a checkpoint. `memory: false` starts from its disk alone, as after a loss of power: for a guest that hangs. */
  restore(checkpoint_id: string, { memory, ...options }: OperationOptions & { memory?: boolean } = {}): Promise<Operation> {
    const json = { checkpoint_id, ...(memory === undefined ? {} : { memory }) }
    return this.#operate({ method: 'POST', path: '/restore', json }, options)
  }

  /**
   * Continues from the memory and disk of a fork or another relative, under this workspace's key. Its earlier state is kept for seven
   * days as `result.recovery_checkpoint_id`.
   */
  adopt(fork: Workspace | string, { delete_fork, ...options }: OperationOptions & { delete_fork?: boolean } = {}): Promise<Operation> {
    const json = { fork_workspace_id: typeof fork === 'string' ? fork : fork.id, ...(delete_fork === undefined ? {} : { delete_fork }) }
    return this.#operate({ method: 'POST', path: '/adopt', json }, options)
  }

  /** Copies the workspace under another key, with its files; a running one also with its memory and processes. */
  async fork(key: string, given: { caps?: Caps; lifetime?: ForkRequest['lifetime'] } & Caps & CallOptions = {}): Promise<Workspace> {
    const { caps, lifetime, ...options } = withCaps(given)
    const json = { key, ...(caps ? { caps } : {}), ...(lifetime ? { lifetime } : {}) }
    const deadline = deadlineFor(options, OPERATION_MS)
    if (this.view.mode === 'file_first') {
      const { workspace } = await this.#call<WorkspaceOnly>({ method: 'POST', path: '/tree/fork', json: { key }, key: true }, options)
      return this.#other(workspace)
    }
    const { operation, workspace } = await this.#call<OperationAndWorkspace>({ method: 'POST', path: '/fork', json, key: true }, options)
    await this.#app.succeeded(operation, deadline)
    const fork = this.#other(workspace)
    await fork.refresh(options)
    return fork
  }

  /** Starts a build of a template version from this workspace's files. `berth.templates.waitForBuild` waits for it. */
  async saveAsTemplate(
    template_slug: string,
    request: Omit<SaveAsTemplateRequest, 'template_slug'> = {},
    options?: CallOptions,
  ): Promise<TemplateBuild> {
    const json = { template_slug, ...request }
    return (await this.#call<SaveAsTemplateResponse>({ method: 'POST', path: '/save-as-template', json, key: true }, options)).build
  }

  /** Deletes every change since the template. */
  reset(options?: OperationOptions): Promise<Operation> {
    return this.#operate({ method: 'POST', path: '/reset', json: { confirm_destructive: true } }, options)
  }

  /** Ends a session workspace. */
  close(options?: OperationOptions): Promise<Operation> {
    return this.#operate({ method: 'POST', path: '/close' }, options)
  }

  delete(options?: OperationOptions): Promise<Operation> {
    return this.#operate({ method: 'DELETE', path: '' }, options)
  }

  operations(query: { state?: Operation['state']; kind?: Operation['kind'] } = {}, options?: CallOptions): List<Operation> {
    return listOf(this.#app, `${this.#path}/operations`, query, options)
  }

  /** Lists the agent sessions that used the workspace, by `agent_label`. */
  agentSessions(options?: CallOptions): List<AgentSession> {
    return listOf(this.#app, `${this.#path}/agent-sessions`, {}, options)
  }

  inputs(options?: CallOptions): Promise<WorkspaceInputs> {
    return this.#call({ method: 'GET', path: '/inputs' }, options)
  }

  usage(query: UsageQuery = {}, options?: CallOptions): Promise<UsageSeries> {
    return this.#call({ method: 'GET', path: '/usage', query }, options)
  }

  /** Names of the secrets that are bound to the workspace. */
  readonly secrets = {
    get: (options?: CallOptions): Promise<WorkspaceSecrets> => this.#call({ method: 'GET', path: '/secrets' }, options),
    set: (names: string[], options?: CallOptions): Promise<WorkspaceSecrets> =>
      this.#call({ method: 'PUT', path: '/secrets', json: { names } }, options),
  }

  /** Egress policy of the workspace. */
  readonly egress = {
    get: (options?: CallOptions): Promise<WorkspaceEgressPolicy> => this.#call({ method: 'GET', path: '/egress-policy' }, options),
    set: (policy: EgressPolicyRequest, options: CallOptions & { if_match?: number } = {}): Promise<WorkspaceEgressPolicy> =>
      this.#call({ method: 'PUT', path: '/egress-policy', json: policy, ...ifMatch(options.if_match) }, options),
    clear: (options: CallOptions & { if_match?: number } = {}): Promise<void> =>
      this.#call({ method: 'DELETE', path: '/egress-policy', ...ifMatch(options.if_match) }, options),
    versions: (options?: CallOptions): List<EgressVersion> => listOf(this.#app, `${this.#path}/egress-policy/versions`, {}, options),
    denials: (options?: CallOptions): Promise<EgressDenialList> => this.#call({ method: 'GET', path: '/egress-policy/denials' }, options),
  }

  /** Volumes that are attached to the workspace. */
  readonly volumes = {
    list: (options?: CallOptions): List<VolumeAttachment> => listOf(this.#app, `${this.#path}/volumes`, {}, options),
    attach: (volume: Volume | string, at: { mount_path: string; mode?: 'read_write' | 'read_only' }, options?: OperationOptions) => {
      const json = { volume_id: typeof volume === 'string' ? volume : volume.id, ...at }
      return this.#attachment({ method: 'POST', path: '/volumes', json }, options)
    },
    detach: (volume_id: string, options?: OperationOptions) =>
      this.#attachment({ method: 'DELETE', path: `/volumes/${volume_id}` }, options),
  }

  /** Closes a session workspace. A persistent one stays as it is. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.view.lifetime === 'session' && this.view.observed_state !== 'deleted') await this.close({ wait: false })
  }

  get #path(): string {
    return `/v1/workspaces/${this.id}`
  }

  #call<T>(request: Request, options?: CallOptions): Promise<T> {
    return this.#app.call({ ...request, path: `${this.#path}${request.path}` }, options)
  }

  async #operate(request: Request, { wait = true, ...options }: OperationOptions = {}): Promise<Operation> {
    const deadline = deadlineFor(options, OPERATION_MS)
    const operation = await this.#call<Operation>({ ...request, key: true }, options)
    return wait ? this.#app.succeeded(operation, deadline) : operation
  }

  async #attachment(request: Request, { wait = true, ...options }: OperationOptions = {}): Promise<VolumeAttachmentAndOperation> {
    const answer = await this.#call<VolumeAttachmentAndOperation>({ ...request, key: true }, options)
    if (wait) await this.#app.succeeded(answer.operation, deadlineFor(options, OPERATION_MS))
    return answer
  }

  #other(view: View): Workspace {
    return new Workspace(this.#app, this.#socket, view, { ...this.#manner, open: undefined }, null)
  }
}

function ifMatch(version: number | undefined): { headers?: Record<string, string> } {
  return version === undefined ? {} : { headers: { 'if-match': String(version) } }
}
