import type { Bytes } from '../bytes.ts'
import type { ExecSession, Execution, Operation, Workspace } from '../schemas.ts'

/** Implements a command of the double. @returns its exit code; undefined: 0 */
export type Program = (run: Run) => number | undefined | Promise<number | undefined>

export interface Run {
  argv: readonly string[]
  env: Readonly<Record<string, string>>
  stdin: Bytes
  /** Files of the workspace, by path. */
  files: Map<string, Bytes>
  stdout(data: string | Uint8Array): void
  stderr(data: string | Uint8Array): void
  /** Input of a terminal, or of a command with `stdin_open`, as it arrives. */
  typed: AsyncIterable<string>
  /** Aborted when the command is cancelled or killed. */
  signal: AbortSignal
}

/** A command or a terminal, with all of its output. */
export class Session {
  readonly fingerprint: string
  readonly record: ExecSession
  readonly log: { stream: 'stdout' | 'stderr'; offset: number; bytes: Bytes }[] = []
  readonly bytes = { stdout: 0, stderr: 0 }
  readonly killed = new AbortController()
  readonly typed: string[] = []
  readonly decoder: { decode(bytes: Uint8Array, options: { stream: boolean }): string } = new TextDecoder()
  #changed = deferred()

  constructor(fingerprint: string, record: ExecSession) {
    this.fingerprint = fingerprint
    this.record = record
  }
  write(stream: 'stdout' | 'stderr', bytes: Bytes): void {
    this.log.push({ stream, offset: this.bytes[stream], bytes })
    this.bytes[stream] += bytes.length
    Object.assign(this.record, { stdout_bytes: this.bytes.stdout, stderr_bytes: this.bytes.stderr })
    this.change()
  }
  end(change: Partial<ExecSession>): void {
    if (this.record.state === 'running') Object.assign(this.record, { state: 'exited', ended_at: now(), ...change })
    this.change()
  }
  change(): void {
    this.#changed.resolve()
    this.#changed = deferred()
  }
  get changed(): Promise<void> {
    return this.#changed.promise
  }
}

export interface DoubleWorkspace {
  view: Workspace
  files: Map<string, Bytes>
  sessions: Map<string, Session>
  terminals: Map<string, Session>
  executions: Map<string, { fingerprint: string; execution: Promise<Execution> }>
  /** Answers of writes, by Idempotency-Key. */
  written: Map<string, unknown>
  checkpoints: Map<string, { files: Map<string, Bytes>; label: string | null }>
}

export interface State {
  /** Address of both api and gateway. */
  url: string
  programs: Record<string, Program>
  places: Map<string, DoubleWorkspace>
  operations: Map<string, Operation>
  /** Answers of other changes, by Idempotency-Key. */
  answered: Map<string, { status: number; body: unknown }>
  secrets: Map<string, { id: string; name: string; [field: string]: unknown }>
}

export function now(): string {
  return new Date().toISOString()
}

export class Refused extends Error {
  readonly status: number
  readonly code: string
  readonly details: Record<string, unknown> | undefined
  readonly retryable: boolean
  constructor(
    status: number,
    code: string,
    message: string,
    { reason, retryable = false, ...rest }: { reason?: string; retryable?: boolean; [name: string]: unknown } = {},
  ) {
    super(message)
    this.status = status
    this.code = code
    this.retryable = retryable
    const details = { ...(reason === undefined ? {} : { reason }), ...rest }
    this.details = Object.keys(details).length === 0 ? undefined : details
  }
}

export function notFound(what: string, reason?: string): Refused {
  return new Refused(404, 'not_found', `${what} is not there`, reason === undefined ? {} : { reason })
}

/** Node.js 20 has no `Promise.withResolvers`. */
function deferred(): { promise: Promise<void>; resolve: () => void } {
  let resolve: () => void = () => undefined
  const promise = new Promise<void>((done) => (resolve = done))
  return { promise, resolve }
}
