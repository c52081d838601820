import { type Bytes, fromBase64, joined, toBase64, utf8 } from './bytes.ts'
import { BerthError, ConnectionError, DeadlineError, errorOf, NotFoundError } from './errors.ts'
import { type ErrorEvent, eventsOf } from './events.ts'
import type { Gateway } from './gateway.ts'
import { guestPath } from './guest-path.ts'
import { deadlineOf, FOREVER_MS, IMMEDIATE_REPEATS_MAX, mayRepeat, pause, waitBefore, type Deadline } from './retry.ts'
import type { ExecSession, ExecStart, Execution } from './schemas.ts'
import { Stdin } from './stdin.ts'
import { type CallOptions, deadlineFor, readJson } from './transport.ts'

/** Fields of the API for a command, and options of the wait. */
export interface ExecOptions extends Omit<ExecStart, 'argv' | 'stdin' | 'stdin_encoding'>, CallOptions {
  /** At most 1 MiB. Standard input closes after it, unless `stdin_open` keeps it open for `Command.write`. */
  stdin?: string | Uint8Array
  /** Called with output as it arrives, before the result. */
  onOutput?: (chunk: OutputChunk) => void
  /**
   * true: throws a CommandError unless the exit code is 0. false: never throws one. Default: throws only where the command could not
   * start, since `exitCode` alone would not show that.
   */
  check?: boolean | undefined
}

/** Start offsets, in bytes of each stream. */
export interface OutputOptions extends CallOptions {
  stdout_offset?: number
  stderr_offset?: number
  /** false: returns the present output without waiting for more. Default: true. */
  follow?: boolean
}

/** A piece of output. Offsets count bytes of its stream from 0, without gaps. */
export interface OutputChunk {
  stream: 'stdout' | 'stderr'
  offset: number
  bytes: Bytes
  /** The characters completed by these bytes. */
  text: string
}

export interface CommandResult {
  /** Id of the session; of the execution in a file-first workspace. */
  id: string
  /** `exited`, `failed_to_start` or `lost`. */
  state: string
  /** null: it did not exit by itself; -1: a signal ended it. */
  exitCode: number | null
  termSignal: string | null
  timedOut: boolean
  /** True if it exited by itself with code 0. */
  ok: boolean
  /** Set where it failed after the workspace killed one of its processes: `out_of_memory`, `process_limit`. */
  reason: ExecSession['reason'] | null
  /** Why it could not start, or was lost; null: neither. */
  error: string | null
  stdout: string
  stderr: string
  stdoutBytes: Bytes
  stderrBytes: Bytes
  /** The complete record, with changed files; null: the workspace is not file-first. */
  execution: Execution | null
}

/** A command could not start, or its exit code was not 0: code `command_failed`. `result` has all of its output. */
export class CommandError extends BerthError {
  override readonly name = 'CommandError'
  readonly result: CommandResult
  constructor(result: CommandResult) {
    super({ status: 0, code: 'command_failed', message: endingIn(result), retryable: false, request_id: null })
    this.result = result
  }
}

const STDERR_CHARACTERS_SHOWN = 500

/** Adds the reason and the end of stderr to the message, since logs often contain only that. */
function endingIn({ state, error, termSignal, exitCode, timedOut, reason, stderr }: CommandResult): string {
  if (state === 'failed_to_start') return `The command could not start: ${error ?? 'no reason is known'}`
  const how = error ?? (termSignal === null ? `exit code ${exitCode ?? 'unknown'}` : termSignal)
  const why = timedOut ? ' (its time was over)' : reason === null ? '' : ` (${reason})`
  const said = stderr.trim().slice(-STDERR_CHARACTERS_SHOWN)
  return `The command ended with ${how}${why}${said === '' ? '' : `: ${said}`}`
}

/** A program with arguments, or a line for a shell. */
export type CommandLine = readonly string[] | string

/** A line runs in `bash` as a login shell, so that the template's profiles set PATH. */
export function argvOf(command: CommandLine): readonly string[] {
  return typeof command === 'string' ? ['bash', '-lc', command] : command
}

export type CommandEnding = Pick<
  ExecSession,
  'state' | 'exit_code' | 'term_signal' | 'timed_out' | 'reason' | 'error' | 'stdout_bytes' | 'stderr_bytes'
>
export type StreamEvent =
  | { type: 'output'; stream: 'stdout' | 'stderr'; offset: number; data: string }
  | ({ type: 'exit' } & CommandEnding)
  | { type: 'heartbeat' }
  | ErrorEvent

/** A command of a workspace with a machine. It keeps running when no client is connected. */
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

  /** How it ended; null: this object has not read its output to the end. */
  get ending(): CommandEnding | null {
    return this.#ending
  }

  /** Reads its record. */
  status(options?: CallOptions): Promise<ExecSession> {
    return this.#gateway.call({ method: 'GET', path: this.#path() }, options)
  }

  /** Sends a signal, such as SIGINT, to its process group. */
  signal(signal: string, options?: CallOptions): Promise<ExecSession> {
    return this.#gateway.call({ method: 'POST', path: this.#path('/signal'), json: { signal } }, options)
  }

  /** Sends SIGTERM, and SIGKILL after the grace time. */
  cancel(options?: CallOptions): Promise<ExecSession> {
    // A repeated cancel has no further effect.
    return this.#gateway.call({ method: 'POST', path: this.#path('/cancel'), json: {}, repeats: 'keyed' }, options)
  }

  /**
   * Writes to standard input of a command started with `stdin_open`; each byte arrives once, even if the request is retried. Returns when
   * the command's pipe has taken all bytes. Keeps the order of calls, and merges writes that wait. After a failed write all later ones
   * fail.
   */
  write(data: string | Uint8Array, options?: CallOptions): Promise<void> {
    return this.#stdin.write(typeof data === 'string' ? utf8(data) : data, { close: false, options })
  }

  /** Closes standard input. */
  end(options?: CallOptions): Promise<void> {
    return this.#stdin.write(new Uint8Array(), { close: true, options })
  }

  [Symbol.asyncIterator](): AsyncGenerator<OutputChunk, void> {
    return this.output()
  }

  /** Yields output from these offsets until the command ends, each byte once, across lost connections, suspends and resumes. */
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
          const chunk = event.type === 'output' ? newBytesOf(event, next, decoders) : null
          if (chunk === null) continue
          attempt = 0
          yield chunk
        }
        if (!follow) return
        throw new ConnectionError('The stream broke off')
      } catch (error) {
        if (!(error instanceof BerthError) || deadline.signal.aborted) throw withSessionId(error, this.id)
        await this.#putRight(error, attempt, deadline).catch((thrown: unknown) => {
          throw withSessionId(thrown, this.id)
        })
      }
    }
  }

  /** Waits for the end of the command. @returns its output from the given offsets on, as far as it is retained. */
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

  /** Cancels the command if it still runs. */
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

/** Returns the new bytes of an event; null: all were seen before. */
function newBytesOf(
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

/** Starts a command, once even if the request is retried. An aborted call does not end it. */
export async function startCommand(gateway: Gateway, command: CommandLine, options: ExecOptions = {}): Promise<Command> {
  const { signal, waitMs } = options
  const session_id = options.session_id ?? newId()
  const json = { ...requestOf(command, options), session_id }
  const request = { method: 'POST', path: '/exec', json, repeats: 'keyed' as const }
  const record = await gateway.call<ExecSession>(request, { signal, waitMs }).catch((error: unknown) => {
    throw withSessionId(error, session_id)
  })
  // If the command already ran, another program may have written to its stdin.
  const stdin_bytes = Math.max(bytesOf(options.stdin).length, record.stdin?.offset ?? 0)
  return new Command(gateway, session_id, record, stdin_bytes)
}

/**
 * Runs a command to its end, in either mode of workspace. Only an abort by `signal` cancels it, and only with a machine; it survives
 * `waitMs`, lost connections and the end of the program.
 */
export async function runCommand(gateway: Gateway, line: CommandLine, options: ExecOptions = {}): Promise<CommandResult> {
  if (gateway.view.mode === 'file_first') return runExecution(gateway, line, options)
  const { signal, waitMs, check, onOutput } = options
  const has_left = signal?.aborted === true // aborted before any request
  const session_id = options.session_id ?? newId()
  try {
    const command = await startCommand(gateway, line, { ...options, session_id })
    return await command.result({ signal, waitMs, check, ...(onOutput ? { onOutput } : {}) })
  } catch (error) {
    // The caller has gone: no one reads the answer of the cancel.
    if (signal?.aborted && !has_left) void cancelLeft(new Command(gateway, session_id)).catch(() => undefined)
    throw error
  }
}

const CANCEL_MS = 30_000
const START_SEEN_MS = 5000

/** Cancels a command after its caller's abort. A start request may still be in flight, so a missing command is tried again. */
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
  // The answer arrives when the command has ended.
  const request = { method: 'POST', path: '/exec', json, repeats: 'keyed' as const, attempt_ms: FOREVER_MS }
  const deadline = deadlineOf(signal, waitMs ?? FOREVER_MS)
  const execution = await gateway.send(request, deadline, readJson<Execution>).catch((error: unknown) => {
    throw withSessionId(error, execution_id, 'execution')
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

/** Adds the id to a deadline error: the command continues, and the caller can find it again. */
export function withSessionId(error: unknown, session_id: string, noun: 'command' | 'execution' | 'terminal' = 'command'): unknown {
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
