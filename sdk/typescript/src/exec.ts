import { type Bytes, fromBase64, joined, toBase64, utf8 } from './bytes.ts'
import { BerthError, ConnectionError, DeadlineError, errorOf, NotFoundError } from './errors.ts'
import { type ErrorEvent, eventsOf } from './events.ts'
import type { Gateway } from './gateway.ts'
import { guestPath } from './guest-path.ts'
import { deadlineOf, FOREVER_MS, IMMEDIATE_REPEATS_MAX, mayRepeat, pause, waitBefore, type Deadline } from './retry.ts'
import type { ExecSession, ExecStart, Execution } from './schemas.ts'
import { Stdin } from './stdin.ts'
import { type CallOptions, deadlineFor, readJson } from './transport.ts'

/** Of a command: the fields of the API as they are, and how the caller waits. */
export interface ExecOptions extends Omit<ExecStart, 'argv' | 'stdin' | 'stdin_encoding'>, CallOptions {
  /** 1 MiB at most; the command's standard input ends after it, unless `stdin_open` says that more comes by `Command.write`. */
  stdin?: string | Uint8Array
  /** Sees output as it comes, before the result is there. */
  onOutput?: (chunk: OutputChunk) => void
  /**
   * true: a CommandError for every ending but exit code 0. false: none. Absent: a CommandError only where the command could not start,
   * since a program that tests `exitCode` alone would take that for a success.
   */
  check?: boolean | undefined
}

/** Where to begin: bytes of each stream. */
export interface OutputOptions extends CallOptions {
  stdout_offset?: number
  stderr_offset?: number
  /** false: what there is, and no waiting for more. True where it is not said. */
  follow?: boolean
}

/** A piece of output. Offsets count bytes of its stream, from 0, and have no gaps. */
export interface OutputChunk {
  stream: 'stdout' | 'stderr'
  offset: number
  bytes: Bytes
  /** The characters that are complete with these bytes. */
  text: string
}

export interface CommandResult {
  /** Of the session, or of the execution where the workspace is file-first. */
  id: string
  /** `exited`, `failed_to_start` or `lost`. */
  state: string
  /** null where it did not end by itself; -1 where a signal ended it. */
  exitCode: number | null
  termSignal: string | null
  timedOut: boolean
  /** Whether it ended by itself with exit code 0. */
  ok: boolean
  /** It failed after a process of it was ended, because the workspace had no memory or too many processes: `out_of_memory`, `process_limit`. */
  reason: ExecSession['reason'] | null
  /** Why it could not start, or was lost. */
  error: string | null
  stdout: string
  stderr: string
  stdoutBytes: Bytes
  stderrBytes: Bytes
  /** Of a file-first workspace: the whole record, with what it changed. */
  execution: Execution | null
}

/** A command could not start, or ended otherwise than with exit code 0: code `command_failed`. `result` has all of its output. */
export class CommandError extends BerthError {
  override readonly name = 'CommandError'
  readonly result: CommandResult
  constructor(result: CommandResult) {
    super({ status: 0, code: 'command_failed', message: endingIn(result), retryable: false, request_id: null })
    this.result = result
  }
}

const STDERR_CHARACTERS_SHOWN = 500

/** A program's log often has the message alone, so the message has the reason and the end of stderr. */
function endingIn({ state, error, termSignal, exitCode, timedOut, reason, stderr }: CommandResult): string {
  if (state === 'failed_to_start') return `The command could not start: ${error ?? 'no reason is known'}`
  const how = error ?? (termSignal === null ? `exit code ${exitCode ?? 'unknown'}` : termSignal)
  const why = timedOut ? ' (its time was over)' : reason === null ? '' : ` (${reason})`
  const said = stderr.trim().slice(-STDERR_CHARACTERS_SHOWN)
  return `The command ended with ${how}${why}${said === '' ? '' : `: ${said}`}`
}

/** A command as a list of words, or as a line for a shell. */
export type CommandLine = readonly string[] | string

/** A line runs in `bash` as a login shell, so that profiles of the template set its PATH. */
export function argvOf(command: CommandLine): readonly string[] {
  return typeof command === 'string' ? ['bash', '-lc', command] : command
}

/** How a command ended. */
export type CommandEnding = Pick<
  ExecSession,
  'state' | 'exit_code' | 'term_signal' | 'timed_out' | 'reason' | 'error' | 'stdout_bytes' | 'stderr_bytes'
>
export type StreamEvent =
  | { type: 'output'; stream: 'stdout' | 'stderr'; offset: number; data: string }
  | ({ type: 'exit' } & CommandEnding)
  | { type: 'heartbeat' }
  | ErrorEvent

/** A command of a workspace with a machine. It runs on whether or not anybody listens. */
export class Command implements AsyncDisposable, AsyncIterable<OutputChunk> {
  readonly id: string
  readonly #gateway: Gateway
  readonly #stdin: Stdin
  #ending: CommandEnding | null = null

  constructor(gateway: Gateway, id: string, record?: ExecSession, stdin_bytes?: number) {
    this.#gateway = gateway
    this.id = id
    this.#stdin = new Stdin(gateway, this.#path('/stdin'), stdin_bytes)
    if (record && record.state === 'failed_to_start') this.#ending = record
  }

  /** How it ended; null while that was not seen here: output that was read to its end has shown it. */
  get ending(): CommandEnding | null {
    return this.#ending
  }

  /** Its record. */
  status(options?: CallOptions): Promise<ExecSession> {
    return this.#gateway.call({ method: 'GET', path: this.#path() }, options)
  }

  /** Sends a signal, such as SIGINT, to its process group. */
  signal(signal: string, options?: CallOptions): Promise<ExecSession> {
    return this.#gateway.call({ method: 'POST', path: this.#path('/signal'), json: { signal } }, options)
  }

  /** SIGTERM, and SIGKILL after its grace. */
  cancel(options?: CallOptions): Promise<ExecSession> {
    // Twice is no more than once.
    return this.#gateway.call({ method: 'POST', path: this.#path('/cancel'), json: {}, repeats: 'keyed' }, options)
  }

  /**
   * Writes to its standard input, where it was started with `stdin_open`: each byte once, however often a request is sent. Returns when
   * the command's pipe has taken all, which is as late as the command is slow. Writes are done in the order in which they are called;
   * what is written while a request is on its way goes with the next one. After one that failed, all that follow fail.
   */
  write(data: string | Uint8Array, options?: CallOptions): Promise<void> {
    return this.#stdin.write(typeof data === 'string' ? utf8(data) : data, { close: false, options })
  }

  /** Closes its standard input. */
  end(options?: CallOptions): Promise<void> {
    return this.#stdin.write(new Uint8Array(), { close: true, options })
  }

  [Symbol.asyncIterator](): AsyncGenerator<OutputChunk, void> {
    return this.output()
  }

  /** Its output from these offsets on, each byte once, over dropped connections, suspends and resumes, until it has ended. */
  async *output(from: OutputOptions = {}): AsyncGenerator<OutputChunk, void> {
    const { stdout_offset: stdout = 0, stderr_offset: stderr = 0, follow = true } = from
    const next = { stdout, stderr }
    const decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() }
    const deadline = deadlineFor(from, FOREVER_MS)
    for (let attempt = 0; this.#ending?.state !== 'failed_to_start'; attempt += 1) {
      try {
        for await (const event of this.#events(next, follow, deadline)) {
          if (event.type === 'error') throw errorOf({ status: 0, ...event.error })
          if (event.type === 'exit') {
            if (event.stdout_bytes > next.stdout || event.stderr_bytes > next.stderr) throw new ConnectionError('Output is missing')
            this.#ending = event
            return
          }
          const chunk = event.type === 'output' ? takenFrom(event, next, decoders) : null
          if (chunk === null) continue
          attempt = 0
          yield chunk
        }
        if (!follow) return
        throw new ConnectionError('The stream broke off')
      } catch (error) {
        if (!(error instanceof BerthError) || deadline.signal.aborted) throw named(error, this.id)
        await this.#putRight(error, attempt, deadline).catch((thrown: unknown) => {
          throw named(thrown, this.id)
        })
      }
    }
  }

  /** Waits for its end. @returns what it wrote, all of what is still kept unless offsets say otherwise. */
  async result({
    check,
    onOutput,
    ...options
  }: Pick<ExecOptions, 'check' | 'onOutput'> & Omit<OutputOptions, 'follow'> = {}): Promise<CommandResult> {
    const parts = { stdout: [] as Bytes[], stderr: [] as Bytes[] }
    for await (const chunk of this.output(options)) {
      parts[chunk.stream].push(chunk.bytes)
      onOutput?.(chunk)
    }
    if (this.#ending === null) throw new TypeError('A command whose output has ended has an ending')
    const result = resultOf(this.id, this.#ending, joined(parts.stdout), joined(parts.stderr), null)
    return checked(result, check)
  }

  /** Cancels it where it still runs. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#ending === null) await this.cancel()
  }

  async #putRight(error: BerthError, attempt: number, deadline: Deadline): Promise<void> {
    if ((await this.#gateway.repair(error, deadline)) && attempt < IMMEDIATE_REPEATS_MAX) return
    if (!mayRepeat(error, 'read')) throw error
    await pause(waitBefore(attempt, error.retryAfterMs), deadline)
  }

  #events(next: Readonly<Record<'stdout' | 'stderr', number>>, follow: boolean, deadline: Deadline): AsyncGenerator<StreamEvent> {
    const query = { stdout_offset: next.stdout, stderr_offset: next.stderr, ...(follow ? {} : { follow }) }
    return eventsOf<StreamEvent>(this.#gateway, { method: 'GET', path: this.#path('/output'), query }, deadline)
  }

  #path(below = ''): string {
    return `/exec/${encodeURIComponent(this.id)}${below}`
  }
}

/** What is new in an event. Bytes that were seen before are left out. */
function takenFrom(
  { stream, offset, data }: Extract<StreamEvent, { type: 'output' }>,
  next: Record<'stdout' | 'stderr', number>,
  decoders: Readonly<Record<'stdout' | 'stderr', { decode(bytes: Uint8Array, options: { stream: boolean }): string }>>,
): OutputChunk | null {
  if (offset > next[stream]) throw new ConnectionError('Output is missing')
  const bytes = fromBase64(data).subarray(next[stream] - offset)
  if (bytes.length === 0) return null
  const chunk = { stream, offset: next[stream], bytes, text: decoders[stream].decode(bytes, { stream: true }) }
  next[stream] += bytes.length
  return chunk
}

/** Starts a command. However often the request is sent, it runs once. A caller that leaves meanwhile does not end it. */
export async function startCommand(gateway: Gateway, command: CommandLine, options: ExecOptions = {}): Promise<Command> {
  const { signal, waitMs } = options
  const session_id = options.session_id ?? newId()
  const json = { ...requestOf(command, options), session_id }
  const request = { method: 'POST', path: '/exec', json, repeats: 'keyed' as const }
  const record = await gateway.call<ExecSession>(request, { signal, waitMs }).catch((error: unknown) => {
    throw named(error, session_id)
  })
  // A start that found the command running has bytes before it, which another program wrote.
  const stdin_bytes = Math.max(bytesOf(options.stdin).length, record.stdin?.offset ?? 0)
  return new Command(gateway, session_id, record, stdin_bytes)
}

/**
 * Runs a command to its end, on either mode of workspace. An abort by `signal` cancels a command of a workspace with a machine. Nothing else
 * does: it goes on when `waitMs` is over, when a connection breaks, and when the program ends.
 */
export async function runCommand(gateway: Gateway, line: CommandLine, options: ExecOptions = {}): Promise<CommandResult> {
  if (gateway.view.mode === 'file_first') return runExecution(gateway, line, options)
  const { signal, waitMs, check, onOutput } = options
  const has_left = signal?.aborted === true // before anything was sent
  const session_id = options.session_id ?? newId()
  try {
    const command = await startCommand(gateway, line, { ...options, session_id })
    return await command.result({ signal, waitMs, check, ...(onOutput ? { onOutput } : {}) })
  } catch (error) {
    // The caller has left, so the answer of the cancel reaches no caller.
    if (signal?.aborted && !has_left) void cancelLeft(new Command(gateway, session_id)).catch(() => undefined)
    throw error
  }
}

const CANCEL_MS = 30_000
const START_SEEN_MS = 5000

/** Cancels a command whose caller has left. A start that was under way then may reach the workspace later than the first cancel. */
async function cancelLeft(command: Command): Promise<void> {
  const deadline = deadlineOf(undefined, CANCEL_MS)
  const until = performance.now() + START_SEEN_MS
  for (let attempt = 0; ; attempt += 1) {
    try {
      return void (await command.cancel({ waitMs: CANCEL_MS }))
    } catch (error) {
      if (!(error instanceof NotFoundError) || performance.now() > until) return
      await pause(waitBefore(attempt, null), deadline).catch(() => undefined)
    }
  }
}

function newId(): string {
  return `sdk-${crypto.randomUUID()}`
}

async function runExecution(gateway: Gateway, command: CommandLine, options: ExecOptions): Promise<CommandResult> {
  const { signal, waitMs, check, onOutput, session_id: _ignored, ...rest } = options
  const execution_id = options.execution_id ?? newId()
  const json = { ...requestOf(command, rest), execution_id }
  // The answer comes when the command has ended.
  const request = { method: 'POST', path: '/exec', json, repeats: 'keyed' as const, attempt_ms: FOREVER_MS }
  const deadline = deadlineOf(signal, waitMs ?? FOREVER_MS)
  const execution = await gateway.send(request, deadline, readJson<Execution>).catch((error: unknown) => {
    throw named(error, execution_id, 'execution')
  })
  const [stdout, stderr] = [fromBase64(execution.stdout), fromBase64(execution.stderr)]
  const { state, exit_code, term_signal, timed_out, error } = execution
  const started = error?.details.reason === 'exec_failed_to_start' ? ('failed_to_start' as const) : ('lost' as const)
  const ending = {
    state: state === 'succeeded' ? ('exited' as const) : started,
    exit_code,
    term_signal,
    timed_out,
    error: error?.message ?? null,
    stdout_bytes: stdout.length,
    stderr_bytes: stderr.length,
  }
  const result = resultOf(execution_id, ending, stdout, stderr, execution)
  for (const [stream, bytes, text] of [
    ['stdout', stdout, result.stdout],
    ['stderr', stderr, result.stderr],
  ] as const)
    // prettier-ignore
    if (bytes.length > 0) onOutput?.({ stream, offset: 0, bytes, text })
  return checked(result, check)
}

function checked(result: CommandResult, check: boolean | undefined): CommandResult {
  const is_wrong = check === undefined ? result.state === 'failed_to_start' : check && !result.ok
  if (is_wrong) throw new CommandError(result)
  return result
}

/** What was begun goes on after the caller's time is over, so the error names it and says how to find it again. */
export function named(error: unknown, session_id: string, noun: 'command' | 'execution' | 'terminal' = 'command'): unknown {
  if (!(error instanceof DeadlineError) || error.sessionId !== null) return error
  const message = `The time for this call is over; command ${session_id} may still run: ws.${noun}("${session_id}") finds it again`
  const { operationId } = error
  return new DeadlineError(message, { session_id, ...(operationId === null ? {} : { operation_id: operationId }), cause: error })
}

function bytesOf(stdin: string | Uint8Array = ''): Uint8Array {
  return typeof stdin === 'string' ? utf8(stdin) : stdin
}

function requestOf(command: CommandLine, options: ExecOptions): object {
  const argv = argvOf(command)
  const { signal: _signal, waitMs: _wait, check: _check, onOutput: _seen, stdin, ...given } = options
  const fields = given.cwd === undefined ? given : { ...given, cwd: guestPath(given.cwd) }
  if (stdin === undefined) return { argv, ...fields }
  return typeof stdin === 'string' ? { argv, ...fields, stdin } : { argv, ...fields, stdin: toBase64(stdin), stdin_encoding: 'base64' }
}

function resultOf(id: string, ending: CommandEnding, stdoutBytes: Bytes, stderrBytes: Bytes, execution: Execution | null): CommandResult {
  const { state, exit_code, term_signal, timed_out, reason, error } = ending
  const text = (bytes: Bytes) => new TextDecoder().decode(bytes)
  return {
    id,
    state,
    exitCode: exit_code,
    termSignal: term_signal,
    timedOut: timed_out,
    ok: state === 'exited' && exit_code === 0,
    reason: reason ?? null,
    error,
    stdout: text(stdoutBytes),
    stderr: text(stderrBytes),
    stdoutBytes,
    stderrBytes,
    execution,
  }
}
