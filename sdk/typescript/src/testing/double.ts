import { fromBase64 } from '../bytes.ts'
import { Berth, type BerthOptions } from '../berth.ts'
import { answerApp, API_KEY } from './app.ts'
import { answerGateway } from './gateway.ts'
import { BUILT_IN, eventsOf, sessionOf } from './guest.ts'
import { notFound, type DoubleWorkspace, type Program, Refused, type State } from './state.ts'

export type { Program, Run } from './state.ts'

export interface Double {
  /** The real SDK, connected to this double. */
  berth: Berth
  /** Options of that SDK, for a client with a `fetch` that wraps this one. */
  options: Required<Pick<BerthOptions, 'url' | 'apiKey' | 'fetch' | 'WebSocket'>>
  /** Behaviour of commands, by program name. Programs may be added at any time. */
  programs: Record<string, Program>
}

/**
 * Creates a service in memory, for tests of programs that use the SDK, without network or machine. Commands are functions; all else
 * answers as the service does, as far as programs can observe.
 * @param url address of the double. A test that serves `options.fetch` over HTTP gives its own.
 */
export function createDouble({
  programs = {},
  url = 'http://berth.double',
}: { programs?: Record<string, Program>; url?: string } = {}): Double {
  const state: State = {
    url,
    programs: { ...BUILT_IN, ...programs },
    places: new Map(),
    operations: new Map(),
    answered: new Map(),
    secrets: new Map(),
  }
  const options = { url, apiKey: API_KEY, fetch: fetchOf(state), WebSocket: socketOf(state) }
  return { berth: new Berth(options), options, programs: state.programs }
}

function fetchOf(state: State): typeof fetch {
  return async (input, init) => {
    const request = new Request(input, init)
    const url = new URL(request.url)
    const request_id = crypto.randomUUID()
    try {
      const bytes = new Uint8Array(await request.arrayBuffer())
      const { method, headers } = request
      request.signal.throwIfAborted()
      const place = placeOf(state, url.pathname, headers.get('authorization'))
      if (place) {
        const path = url.pathname.replace(/^\/v1\/workspaces\/[^/]+/, '')
        const response = await answerGateway(state, place, { method, path, query: url.searchParams, headers, bytes })
        if (place.view.tree_revision !== null) response.headers.set('x-tree-revision', String(place.view.tree_revision))
        return whileWanted(response, request.signal)
      }
      const key = headers.get('idempotency-key')
      const known = key === null ? undefined : state.answered.get(key)
      const json = (bytes.length === 0 ? {} : JSON.parse(new TextDecoder().decode(bytes))) as Record<string, unknown>
      const { status, body } = known ?? answerApp(state, { method, path: url.pathname, query: url.searchParams, json })
      if (key !== null) state.answered.set(key, { status, body: structuredClone(body) })
      if (status === 204) return new Response(null, { status })
      return Response.json(body, { status, headers: { 'preference-applied': 'wait=20' } })
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      const { status, code, message, retryable, details } = error
      return Response.json({ error: { code, message, request_id, retryable, ...(details ? { details } : {}) } }, { status })
    }
  }
}

/** Breaks off the body of an aborted request, as the platform's fetch does. */
function whileWanted({ body, status, headers }: Response, signal: AbortSignal): Response {
  const carried = body?.pipeThrough(new TransformStream(), { signal }) ?? null
  return new Response(carried, { status, headers })
}

/** Returns the workspace of a tool call; undefined: a call of the application API. */
function placeOf(state: State, path: string, authorization: string | null): DoubleWorkspace | undefined {
  const [kind = '', id = '', epoch = ''] = (authorization ?? '').replace('Bearer ', '').split('.')
  if (kind === API_KEY) return undefined
  if (kind !== 'double' || !path.startsWith(`/v1/workspaces/${id}/`))
    throw new Refused(401, 'unauthenticated', 'The credential is not known')
  const place = state.places.get(id)
  if (!place || place.view.observed_state === 'deleted') throw notFound('The workspace')
  if (epoch !== String(place.view.ownership_epoch))
    throw new Refused(409, 'stale_epoch', 'The token is of an earlier epoch', { retryable: true })
  if (place.view.observed_state !== 'running')
    throw new Refused(409, 'workspace_not_running', 'The workspace is suspended', { retryable: true })
  return place
}

function socketOf(state: State): typeof WebSocket {
  class DoubleSocket {
    readyState = 0 as number
    onopen: (() => void) | null = null
    onclose: (() => void) | null = null
    onerror: (() => void) | null = null
    onmessage: ((event: { data: string }) => void) | null = null

    constructor(url: string, protocols: string[]) {
      setTimeout(() => void this.#carry(new URL(url), protocols.at(-1)?.replace('bearer.', 'Bearer ') ?? ''))
    }
    send(text: string): void {
      this.#said(JSON.parse(text) as { type: string; data?: string })
    }
    close(): void {
      if (this.readyState === 3) return
      this.readyState = 3
      setTimeout(() => this.onclose?.())
    }
    #said: (message: { type: string; data?: string }) => void = () => undefined

    async #carry(url: URL, authorization: string): Promise<void> {
      if (this.readyState !== 0) return
      this.readyState = 1
      try {
        const place = placeOf(state, url.pathname, authorization)
        const session = sessionOf(place?.terminals ?? new Map<string, never>(), decodeURIComponent(url.pathname.split('/').at(-2) ?? ''))
        this.#said = ({ type, data = '' }) => {
          if (type === 'input') session.typed.push(new TextDecoder().decode(fromBase64(data)))
          session.change()
        }
        this.onopen?.()
        for await (const event of eventsOf(session, { stdout: Number(url.searchParams.get('offset') ?? 0), stderr: 0 })) {
          if (this.readyState !== 1) return
          this.onmessage?.({ data: JSON.stringify(event) })
        }
      } catch (error) {
        const { code, message, retryable } = error as Refused
        this.onmessage?.({ data: JSON.stringify({ type: 'error', error: { code, message, retryable, request_id: 'double' } }) })
      }
      this.close()
    }
  }
  return DoubleSocket as unknown as typeof WebSocket
}
