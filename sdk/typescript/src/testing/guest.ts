import { type Bytes, fromBase64, joined, toBase64, utf8 } from '../bytes.ts'
import type { ExecSession, ExecStdin, Execution } from '../schemas.ts'
import { notFound, now, type DoubleWorkspace, type Program, Refused, Session, type State } from './state.ts'

export const BUILT_IN: Record<string, Program> = {
  true: () => 0,
  false: () => 1,
  echo: ({ argv, stdout }) => {
    stdout(`${argv.slice(1).join(' ')}\n`)
    return 0
  },
  cat: async ({ argv, stdin, stdout, files, typed }) => {
    for (const path of argv.slice(1)) stdout(files.get(path) ?? '')
    if (argv.length > 1) return 0
    stdout(stdin)
    for await (const text of typed) stdout(text)
    return 0
  },
  sleep: ({ argv, signal }) =>
    new Promise((resolve) => {
      const timer = setTimeout(() => resolve(0), Number(argv[1]) * 1000)
      signal.addEventListener('abort', () => {
        clearTimeout(timer)
        resolve(undefined)
      })
    }),
}

/** Starts a command, or returns the one with this id. */
export function startSession(state: State, place: DoubleWorkspace, json: Record<string, unknown>): { session: Session; is_new: boolean } {
  const id = typeof json['session_id'] === 'string' ? json['session_id'] : crypto.randomUUID()
  const fingerprint = JSON.stringify(json)
  const known = place.sessions.get(id)
  if (known && known.fingerprint !== fingerprint) throw reused('operation_id_reused')
  if (known) return { session: known, is_new: false }
  const argv = json['argv'] as string[]
  const session = new Session(fingerprint, recordOf(id, argv))
  if (json['stdin_open'] === true) session.record.stdin = { offset: stdinOf(json).length, open: true }
  place.sessions.set(id, session)
  const program = state.programs[argv[0] ?? '']
  if (program) void play(program, session, place, json)
  else Object.assign(session.record, { state: 'failed_to_start', error: `${argv[0] ?? ''}: not found`, ended_at: now() })
  return { session, is_new: true }
}

export function openTerminal(state: State, place: DoubleWorkspace, json: Record<string, unknown>): { session: Session; is_new: boolean } {
  const id = typeof json['session_id'] === 'string' ? json['session_id'] : crypto.randomUUID()
  const known = place.terminals.get(id)
  if (known) return { session: known, is_new: false }
  const argv = (json['argv'] as string[] | undefined) ?? ['cat']
  const session = new Session(JSON.stringify(json), recordOf(id, argv))
  place.terminals.set(id, session)
  void play(state.programs[argv[0] ?? ''] ?? BUILT_IN['cat'] ?? (() => 0), session, place, json)
  return { session, is_new: true }
}

/** Runs a command of a file-first workspace to its end. */
export async function execute(state: State, place: DoubleWorkspace, json: Record<string, unknown>): Promise<Execution> {
  const id = String(json['execution_id'])
  const fingerprint = JSON.stringify(json)
  const known = place.executions.get(id)
  if (known && known.fingerprint !== fingerprint) throw reused('execution_id_reused')
  if (known) return known.execution
  const execution = executed(state, place, id, json)
  place.executions.set(id, { fingerprint, execution })
  return execution
}

async function executed(
  state: State,
  place: DoubleWorkspace,
  execution_id: string,
  { execution_id: _id, ...json }: Record<string, unknown>,
): Promise<Execution> {
  const base_revision = place.view.tree_revision ?? 0
  const before = new Map(place.files)
  const { session } = startSession(state, place, { ...json, session_id: execution_id })
  while (session.record.state === 'running') await session.changed
  const changed = [...place.files]
    .filter(([path, bytes]) => before.get(path) !== bytes)
    .map(([path]) => ({ path, change: 'modified', type: 'file' }))
  if (changed.length > 0) place.view.tree_revision = base_revision + 1
  const { exit_code, term_signal, state: ended, error } = session.record
  const of = (stream: string) => toBase64(joined(session.log.filter((each) => each.stream === stream).map(({ bytes }) => bytes)))
  return {
    execution_id,
    state: ended === 'exited' ? 'succeeded' : 'failed',
    base_revision,
    tree_revision: place.view.tree_revision,
    exit_code,
    term_signal,
    timed_out: false,
    stdout: of('stdout'),
    stderr: of('stderr'),
    stdout_truncated: false,
    stderr_truncated: false,
    changed,
    changed_truncated: false,
    error:
      error === null ? null : { code: 'validation_failed', message: error, retryable: false, details: { reason: 'exec_failed_to_start' } },
    created_at: now(),
    finished_at: now(),
  } as unknown as Execution
}

async function play(program: Program, session: Session, place: DoubleWorkspace, json: Record<string, unknown>): Promise<void> {
  const out = (stream: 'stdout' | 'stderr') => (data: string | Uint8Array) => {
    const bytes: Bytes = typeof data === 'string' ? utf8(data) : new Uint8Array(data)
    if (bytes.length > 0) session.write(stream, bytes)
  }
  const { signal } = session.killed
  const code = await program({
    argv: session.record.argv,
    env: (json['env'] as Record<string, string> | undefined) ?? {},
    stdin: stdinOf(json),
    files: place.files,
    stdout: out('stdout'),
    stderr: out('stderr'),
    typed: typedInto(session, place),
    signal,
  })
  session.end(signal.aborted ? { exit_code: -1, term_signal: String(signal.reason) } : { exit_code: code ?? 0 })
}

async function* typedInto(session: Session, place: DoubleWorkspace): AsyncGenerator<string> {
  const { stdin } = session.record
  if (!place.terminals.has(session.record.session_id) && !stdin) return
  while (!session.killed.signal.aborted) {
    const text = session.typed.shift()
    if (text !== undefined) yield text
    else if (session.record.stdin?.open === false) return
    else await session.changed
  }
}

/** Takes the bytes after the present offset. @returns the new offset */
export function writeStdin(session: Session, offset: number, bytes: Bytes, close: boolean): ExecStdin {
  const { stdin, state } = session.record
  const at = stdin?.offset ?? 0
  const refuse = (reason: string) => new Refused(409, 'conflict', 'This is not taken', { reason, stdin_offset: at })
  if (offset > at) throw refuse('stdin_gap')
  const fresh = bytes.subarray(at - offset)
  const is_open = stdin?.open === true && state === 'running'
  if (!is_open && (fresh.length > 0 || stdin === undefined)) throw refuse('stdin_closed')
  if (!is_open) return { offset: at, open: false }
  if (fresh.length > 0) session.typed.push(session.decoder.decode(fresh, { stream: true }))
  Object.assign(stdin, { offset: at + fresh.length, open: !close })
  session.change()
  return { ...stdin }
}

function stdinOf(json: Record<string, unknown>): Bytes {
  const stdin = json['stdin']
  if (typeof stdin !== 'string') return new Uint8Array()
  return json['stdin_encoding'] === 'base64' ? fromBase64(stdin) : utf8(stdin)
}

export function sessionOf(sessions: DoubleWorkspace['sessions'], id: string): Session {
  const session = sessions.get(id)
  if (!session) throw notFound('The session', 'session_not_found')
  return session
}

/** Returns a page of a list, newest first. The double never truncates argv. */
export function pageOf(sessions: DoubleWorkspace['sessions'], query: URLSearchParams): object {
  const state = query.get('state')
  const rows = [...sessions.values()]
    .map(({ record }) => ({ ...record, argv_truncated: false }))
    .filter((row) => state === null || (state === 'running') === (row.state === 'running'))
    .toReversed()
  const from = Number(query.get('cursor') ?? 0)
  const to = from + Number(query.get('limit') ?? 50)
  return { data: rows.slice(from, to), next_cursor: to < rows.length ? String(to) : null }
}

export async function* eventsOf(
  session: Session,
  from: Readonly<Record<'stdout' | 'stderr', number>>,
  follow = true,
): AsyncGenerator<object> {
  for (let at = 0; ;) {
    for (; at < session.log.length; at += 1) {
      const piece = session.log[at]
      if (!piece) continue
      const skipped = Math.max(0, from[piece.stream] - piece.offset)
      const bytes = piece.bytes.subarray(skipped)
      if (bytes.length > 0) yield { type: 'output', stream: piece.stream, offset: piece.offset + skipped, data: toBase64(bytes) }
    }
    if (session.record.state !== 'running') {
      yield { type: 'exit', ...session.record, output_bytes: session.bytes.stdout }
      return
    }
    if (!follow) return
    await session.changed
  }
}

export function kill(session: Session, signal: string): void {
  if (session.record.state !== 'running') throw new Refused(409, 'conflict', 'It has ended')
  session.killed.abort(signal)
  session.end({ exit_code: -1, term_signal: signal })
}

function reused(reason: string): Refused {
  return new Refused(409, 'conflict', 'This id was used for another request', { reason })
}

function recordOf(session_id: string, argv: string[]): ExecSession {
  return {
    session_id,
    argv,
    cwd: '/home/user',
    user: 'user',
    pid: 1,
    state: 'running',
    exit_code: null,
    term_signal: null,
    timed_out: false,
    started_at: now(),
    ended_at: null,
    error: null,
    stdout_bytes: 0,
    stderr_bytes: 0,
    stdout_available_from: 0,
    stderr_available_from: 0,
  }
}
