import { BerthError, ConnectionError, readError } from './errors.ts'
import type { Notices } from './waiting.ts'
import { type Deadline, deadlineOf, endedBy, IMMEDIATE_REPEATS_MAX, mayRepeat, pause, type Repeats, waitBefore } from './retry.ts'

/** Options of every method of this library. */
export interface CallOptions {
  /** Aborts the call and all of its waits. */
  signal?: AbortSignal | undefined
  /** Total wait in milliseconds, over all retries. Default: 120,000; 16 minutes where the call waits for an operation. */
  waitMs?: number | undefined
}

/** A raw request body. A stream can be sent once; a function creates one for each attempt. */
export type Body = Uint8Array<ArrayBuffer> | Blob | ReadableStream<Uint8Array> | (() => ReadableStream<Uint8Array>)

export interface Request {
  method: string
  path: string
  query?: object | undefined
  headers?: Record<string, string> | undefined
  json?: unknown
  /** Raw body, instead of `json`. */
  body?: Body | undefined
  /** Sends an Idempotency-Key, the same for all retries: a generated one (true), or this one. */
  key?: boolean | string | undefined
  /** Default: by method and key. */
  repeats?: Repeats | undefined
  /** Time limit of one attempt until the answer begins. */
  attempt_ms?: number | undefined
}

export interface Target {
  url: string
  token: string
}

/** Handles an error before a retry. true: the cause is removed, so the retry needs no delay. */
export type Repair = (error: BerthError, deadline: Deadline) => Promise<boolean>

/** Reads an answer. An error in it counts as a missing answer. */
export type Read<T> = (response: Response) => Promise<T> | T

/** State of the connection to the service. */
export interface ConnectionState {
  /** True if the service has answered this client before. If so, a lost connection is likely a restart, worth a long wait. */
  is_made: boolean
  readonly notices: Notices
}

export interface Sending<T> {
  request: Request
  target: (deadline: Deadline) => Promise<Target> | Target
  deadline: Deadline
  read: Read<T>
  repair?: Repair
  contact: ConnectionState
}

export type Fetch = typeof globalThis.fetch

const CALL_MS = 120_000
/** Wait for a service that never answered this client: its address is probably wrong. */
const FIRST_CONTACT_MS = 5000
/** A gateway may wake a machine first, and an api holds an answer for 20 seconds. */
const ATTEMPT_MS = 70_000

export function deadlineFor({ signal, waitMs }: CallOptions = {}, otherwise_ms = CALL_MS): Deadline {
  return deadlineOf(signal, waitMs ?? otherwise_ms)
}

/** Sends a request until a 2xx answer is read completely, or the retry rules forbid another attempt. */
export async function send<T>(fetch: Fetch, { request: asked, target, deadline, read, repair, contact }: Sending<T>): Promise<T> {
  const request = keyed(asked)
  const began_at = performance.now()
  const wait = contact.notices.begin()
  try {
    for (let attempt = 0; ; attempt += 1) {
      let to: Target | undefined
      try {
        to = await target(deadline)
        return await read(await once(fetch, request, to, deadline, contact))
      } catch (error) {
        if (deadline.signal.aborted) throw endedBy(deadline)
        if (!(error instanceof BerthError)) throw error
        const is_repaired = (await repair?.(error, deadline)) ?? false
        if (!is_repaired && !mayRepeat(error, repeatsOf(request))) throw error
        if (!contact.is_made && performance.now() - began_at > FIRST_CONTACT_MS) throw error
        if (is_repaired && attempt < IMMEDIATE_REPEATS_MAX) continue
        if (error instanceof ConnectionError) wait.because(`There is no answer${to ? ` from ${to.url}` : ''}; trying again`)
        const wait_ms = waitBefore(attempt, error.retryAfterMs)
        if (wait_ms > deadline.left()) throw error
        await pause(wait_ms, deadline)
      }
    }
  } finally {
    wait.end()
  }
}

async function once(
  fetch: Fetch,
  request: Request,
  { url, token }: Target,
  deadline: Deadline,
  contact: ConnectionState,
): Promise<Response> {
  const headers: Record<string, string> = { authorization: `Bearer ${token}`, ...request.headers }
  if (request.json !== undefined) headers['content-type'] = 'application/json'
  const raw = typeof request.body === 'function' ? request.body() : request.body
  const body = request.json === undefined ? raw : JSON.stringify(request.json)
  const patience = new AbortController()
  const timer = setTimeout(() => patience.abort(), request.attempt_ms ?? ATTEMPT_MS)
  let response: Response
  try {
    const signal = AbortSignal.any([deadline.signal, patience.signal])
    response = await fetch(`${url}${request.path}${queryOf(request.query)}`, {
      method: request.method,
      headers,
      signal,
      // A redirect would send the credential elsewhere.
      redirect: 'error',
      ...(body === undefined ? {} : { body }),
      ...(body instanceof ReadableStream ? { duplex: 'half' } : {}),
    })
  } catch (cause) {
    if (deadline.signal.aborted) throw endedBy(deadline)
    throw new ConnectionError(`${request.method} ${url}${request.path}: there was no answer${codeOf(cause)}`, { cause })
  } finally {
    clearTimeout(timer)
  }
  contact.is_made = true
  if (!response.ok) throw await readError(response)
  return response
}

/** Returns the platform's error code, such as ECONNREFUSED, which tells a wrong address from a failing service. */
function codeOf(cause: unknown): string {
  const { code, cause: deeper } = (cause ?? {}) as { code?: unknown; cause?: unknown }
  if (typeof code === 'string') return ` (${code})`
  return deeper === undefined ? '' : codeOf(deeper)
}

/** Parses an answer as JSON. Throws a ConnectionError where it breaks off. */
export async function readJson<T>(response: Response): Promise<T> {
  try {
    return (await response.json()) as T
  } catch (cause) {
    throw new ConnectionError('The answer broke off', { cause })
  }
}

function keyed(request: Request): Request {
  const { key = false } = request
  if (key === false) return request
  return { ...request, headers: { ...request.headers, 'idempotency-key': key === true ? crypto.randomUUID() : key } }
}

function repeatsOf({ method, key = false, repeats }: Request): Repeats {
  return repeats ?? (method === 'GET' ? 'read' : key === false ? 'once' : 'keyed')
}

export function queryOf(query: object = {}): string {
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined) as [string, string | number | boolean][]
  return pairs.length === 0
    ? ''
    : `?${new URLSearchParams(Object.fromEntries(pairs.map(([name, value]) => [name, String(value)]))).toString()}`
}
