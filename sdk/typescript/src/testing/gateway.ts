import { type Bytes, utf8 } from '../bytes.ts'
import { eventsOf, execute, kill, openTerminal, pageOf, sessionOf, startSession, writeStdin } from './guest.ts'
import type { IdleRecord } from '../schemas.ts'
import { notFound, now, type DoubleWorkspace, Refused, type State } from './state.ts'

export interface Called {
  method: string
  /** Path below the workspace: `/exec/a/output` */
  path: string
  query: URLSearchParams
  headers: Headers
  bytes: Bytes
}

const RESIDENT: IdleRecord['residency'] = {
  ...{ state: 'resident', reason: 'never_parked', park_after_seconds: null, park_after_by: 'cell', park_at: null },
}
/** The double never becomes idle. */
const IDLE: IdleRecord = {
  ...{ policy: 'adaptive', timeout_seconds: null, basis: 'default', idle_since: null, awake: [] },
  recent_activity: { active_at: now(), tool_call_at: null, busy_until: null, keepalive_until: null },
  ...{ suspend_request: null, suspend_at: null, suspend_by: null, residency: RESIDENT, failed_suspends: 0 },
}

const JSON_TYPE = { 'content-type': 'application/json' }

export async function answerGateway(state: State, place: DoubleWorkspace, called: Called): Promise<Response> {
  const { method, path, query, bytes } = called
  const [, noun = '', id = '', verb = ''] = path.split('/').map(decodeURIComponent)
  const json =
    called.headers.get('content-type') === 'application/json'
      ? (JSON.parse(new TextDecoder().decode(bytes)) as Record<string, unknown>)
      : {}
  if (noun === 'exec' && id === '' && method === 'GET') return answer(200, pageOf(place.sessions, query))
  if (noun === 'exec' && id === '') {
    if (place.view.mode === 'file_first') return answer(201, await execute(state, place, json))
    const { session, is_new } = startSession(state, place, json)
    return answer(is_new ? 201 : 200, session.record)
  }
  if (noun === 'exec') {
    const session = sessionOf(place.sessions, id)
    if (verb === 'output') {
      const from = { stdout: Number(query.get('stdout_offset') ?? 0), stderr: Number(query.get('stderr_offset') ?? 0) }
      return new Response(lines(eventsOf(session, from, query.get('follow') !== 'false')), {
        headers: { 'content-type': 'application/x-ndjson' },
      })
    }
    if (verb === 'stdin') return answer(200, writeStdin(session, Number(query.get('offset')), bytes, query.get('close') === 'true'))
    if (verb === 'signal') kill(session, String(json['signal']))
    if (verb === 'cancel' && session.record.state === 'running') kill(session, 'SIGTERM')
    return answer(200, session.record)
  }
  if (noun === 'pty' && id === '' && method === 'GET') return answer(200, pageOf(place.terminals, query))
  if (noun === 'pty' && id === '') {
    const { session, is_new } = openTerminal(state, place, json)
    return answer(is_new ? 201 : 200, session.record)
  }
  if (noun === 'pty') {
    const session = sessionOf(place.terminals, id)
    if (method === 'DELETE' && session.record.state === 'running') kill(session, 'SIGHUP')
    return answer(200, session.record)
  }
  if (noun === 'files') return files(place, called, id, json)
  if (noun === 'keepalive') return answer(200, { keepalive_until: now() })
  if (noun === 'idle') return answer(200, IDLE)
  if (noun === 'wake-hint') return answer(200, { residency: RESIDENT })
  throw notFound('The double knows no such route: it')
}

async function files(
  place: DoubleWorkspace,
  { method, query, headers, bytes }: Called,
  verb: string,
  json: Record<string, unknown>,
): Promise<Response> {
  const named = json['path'] ?? json['from']
  const path = query.get('path') ?? (typeof named === 'string' ? named : '')
  const key = headers.get('idempotency-key')
  const replayed = key === null ? undefined : place.written.get(key)
  if (replayed !== undefined) return answer(200, replayed)
  const said = await changed(place, { method, verb, path, bytes, json, append: query.get('append') === 'true' })
  if (said !== undefined) {
    if (key !== null) place.written.set(key, said.body)
    return said.body === null ? new Response(null, { status: said.status }) : answer(said.status, said.body)
  }
  if (verb === 'list') {
    const below = [...place.files.keys()].filter((name) => name.startsWith(`${path}/`))
    const entries = await Promise.all(below.map((name) => info(name, place.files.get(name) ?? new Uint8Array())))
    return answer(200, { entries, truncated: false })
  }
  if (verb === 'search') return answer(200, search(place, path, String(json['pattern'])))
  const content = fileAt(place, path)
  if (verb === 'stat') return answer(200, await info(path, content))
  const from = Number(query.get('offset') ?? 0)
  const part = content.slice(from, from + Number(query.get('length') ?? content.length))
  return new Response(part, {
    headers: { 'x-file-size': String(content.length), 'x-file-revision': await sha256(content), 'content-length': String(part.length) },
  })
}

interface Change {
  method: string
  verb: string
  path: string
  bytes: Bytes
  json: Record<string, unknown>
  append: boolean
}

/** Applies a change; undefined: the call changes nothing. */
async function changed(
  place: DoubleWorkspace,
  { method, verb, path, bytes, json, append }: Change,
): Promise<{ status: number; body: unknown } | undefined> {
  const publish = () => void (place.view.tree_revision === null || (place.view.tree_revision += 1))
  if (method === 'PUT' && verb === '') {
    const whole = append ? new Uint8Array([...(place.files.get(path) ?? []), ...bytes]) : bytes
    place.files.set(path, whole)
    publish()
    return {
      status: 200,
      body: { path, bytes_written: bytes.length, sha256: await sha256(bytes), durable: true, revision: await sha256(whole) },
    }
  }
  if (method === 'DELETE') {
    const below = [...place.files.keys()].filter((name) => name.startsWith(`${path}/`))
    if (below.length === 0) fileAt(place, path)
    for (const name of [path, ...below]) place.files.delete(name)
    publish()
    return { status: 204, body: null }
  }
  if (verb === 'mkdir') return { status: 201, body: { ...(await info(path, new Uint8Array())), type: 'directory' } }
  if (verb === 'move') {
    const content = fileAt(place, path)
    const to = String(json['to'])
    if (place.files.has(to) && json['overwrite'] !== true)
      throw new Refused(409, 'conflict', 'Something is there', { reason: 'already_exists' })
    place.files.set(to, content)
    place.files.delete(path)
    publish()
    return { status: 200, body: await info(to, content) }
  }
  if (verb !== 'patch') return undefined
  const before = place.files.get(path)
  const { edits, content } = json as { edits?: { old_text: string; new_text: string }[]; content?: string }
  let text = content ?? new TextDecoder().decode(fileAt(place, path))
  for (const [index, { old_text, new_text }] of (edits ?? []).entries()) {
    if (!text.includes(old_text)) throw new Refused(422, 'validation_failed', 'The text is not there', { reason: 'edit_not_found', index })
    text = text.replace(old_text, () => new_text)
  }
  const after = utf8(text)
  place.files.set(path, after)
  publish()
  const [revision, file] = [await sha256(after), await info(path, after)]
  const previous_revision = before ? await sha256(before) : null
  return {
    status: 200,
    body: { path, revision, previous_revision, bytes_written: after.length, durable: true, replacements: edits?.length ?? 0, file },
  }
}

function search(place: DoubleWorkspace, below: string, pattern: string): object {
  const inside = [...place.files].filter(([path]) => path === below || path.startsWith(`${below}/`))
  const matches = inside.flatMap(([path, bytes]) =>
    new TextDecoder()
      .decode(bytes)
      .split('\n')
      .map((text, at) => ({ path, line: at + 1, column: text.indexOf(pattern) + 1, text, before: [], after: [] }))
      .filter(({ column }) => column > 0),
  )
  return { matches, truncated: false, stop_reason: null, files_scanned: inside.length }
}

function fileAt(place: DoubleWorkspace, path: string): Bytes {
  const bytes = place.files.get(path)
  if (!bytes) throw notFound(path, 'path_not_found')
  return bytes
}

async function info(path: string, { length }: Bytes): Promise<object> {
  return { path, name: path.split('/').at(-1), type: 'file', size: length, mode: '0644', modified_at: now() }
}

async function sha256(bytes: Bytes): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))
  return [...digest].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}

function answer(status: number, body: unknown): Response {
  return new Response(JSON.stringify(body), { status, headers: JSON_TYPE })
}

function lines(events: AsyncGenerator<object>): ReadableStream<Bytes> {
  return new ReadableStream({
    async pull(controller) {
      const next = await events.next()
      if (next.done === true) controller.close()
      else controller.enqueue(utf8(`${JSON.stringify(next.value)}\n`))
    },
    cancel: async () => void events.return(undefined),
  })
}
