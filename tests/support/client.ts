import http from 'node:http'
import { isTerminal, type OperationState } from '../../contract/states/operation.ts'
import { patience } from './patience.ts'

export interface Answer<T = Record<string, unknown>> {
  status: number
  headers: http.IncomingHttpHeaders
  body: T
  bytes: Buffer
}

export interface OperationError {
  code: string
  message: string
  details: Record<string, unknown>
}

export function refusalOf({ status, body }: Pick<Answer<unknown>, 'status' | 'body'>): [number, string, string | undefined] {
  const { error } = body as { error: { code: string; details?: { reason?: string } } }
  return [status, error.code, error.details?.reason]
}

export function detailsOf({ body }: Pick<Answer<unknown>, 'body'>): Record<string, unknown> {
  return (body as { error: { details?: Record<string, unknown> } }).error.details ?? {}
}

export interface RequestOptions {
  method?: string
  token?: string
  json?: unknown
  bytes?: Buffer
  headers?: Record<string, string>
  signal?: AbortSignal
  agent?: http.Agent
}

const keepAlive = new http.Agent({ keepAlive: true, maxSockets: 256 })
const OPEN_MS = 180_000

export function send(url: string, options: RequestOptions = {}): Promise<http.IncomingMessage> {
  const payload = options.json === undefined ? options.bytes : Buffer.from(JSON.stringify(options.json))
  const headers: Record<string, string | number> = { ...options.headers }
  if (options.token !== undefined) headers['authorization'] = `Bearer ${options.token}`
  if (options.json !== undefined) headers['content-type'] ??= 'application/json'
  if (payload) headers['content-length'] = payload.length
  return new Promise((resolve, reject) => {
    const request = http.request(
      url,
      {
        method: options.method ?? (payload ? 'POST' : 'GET'),
        headers,
        agent: options.agent ?? keepAlive,
        ...(options.signal ? { signal: options.signal } : {}),
      },
      resolve,
    )
    request.on('error', reject)
    request.setNoDelay(true)
    request.end(payload)
  })
}

/** `body` is {} without JSON. */
export async function call<T = Record<string, unknown>>(url: string, options: RequestOptions = {}): Promise<Answer<T>> {
  const response = await send(url, options)
  const chunks: Buffer[] = []
  for await (const chunk of response as AsyncIterable<Buffer>) chunks.push(chunk)
  const bytes = Buffer.concat(chunks)
  const json = /^application\/(.*\+)?json/.test(response.headers['content-type'] ?? '') && bytes.length > 0
  return { status: response.statusCode ?? 0, headers: response.headers, body: (json ? JSON.parse(bytes.toString()) : {}) as T, bytes }
}

export interface OpenedWorkspace {
  id: string
  endpoint: string
  token: string
  operation_id: string | null
}

interface OpenBody {
  workspace: { id: string }
  operation: { id: string; state: OperationState; error: unknown } | null
  cell_endpoint: string | null
  tool_token: { token: string } | null
}

export interface Client {
  base_url: string
  api_key: string
  api<T = Record<string, unknown>>(path: string, options?: RequestOptions): Promise<Answer<T>>
  open(key: string, body?: Record<string, unknown>): Promise<OpenedWorkspace>
  /** Waits until the operation has ended. */
  operate(
    path: string,
    options?: RequestOptions,
  ): Promise<{ id: string; state: string; error: OperationError | null; result: Record<string, unknown> | null }>
  token(workspace_id: string): Promise<string>
  tool<T = Record<string, unknown>>(workspace: OpenedWorkspace, path: string, options?: RequestOptions): Promise<Answer<T>>
  run(workspace: OpenedWorkspace, argv: string[], body?: Record<string, unknown>): Promise<RunResult>
}

export interface RunResult {
  session_id: string
  stdout: string
  stderr: string
  exit: { state: string; exit_code: number | null; term_signal: string | null; timed_out: boolean; reason?: string }
}

export interface OutputEvent {
  type: 'output' | 'exit' | 'heartbeat' | 'error'
  stream?: 'stdout' | 'stderr'
  offset?: number
  data?: string
  [field: string]: unknown
}

export async function* ndjson(response: AsyncIterable<Buffer>): AsyncGenerator<OutputEvent> {
  let rest = ''
  for await (const chunk of response) {
    rest += chunk.toString('utf8')
    const lines = rest.split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) if (line !== '') yield JSON.parse(line) as OutputEvent
  }
}

export function createClient(base_url: string, api_key: string): Client {
  const api: Client['api'] = (path, options = {}) => call(`${base_url}${path}`, { token: api_key, ...options })

  const settle = async (operation_id: string) => {
    for (let turn = 0; turn < 30; turn++) {
      const { body } = await api<{
        id: string
        state: OperationState
        error: OperationError | null
        result: Record<string, unknown> | null
      }>(`/v1/operations/${operation_id}`, { headers: { prefer: 'wait=20' } })
      if (isTerminal(body.state)) return body
    }
    throw new Error(`operation ${operation_id} did not end`)
  }

  const tool: Client['tool'] = (workspace, path, options = {}) =>
    call(`${workspace.endpoint}/v1/workspaces/${workspace.id}${path}`, { token: workspace.token, ...options })

  return {
    base_url,
    api_key,
    api,
    tool,
    async open(key, body = {}) {
      let operation_id: string | null = null
      for (const deadline_ms = performance.now() + patience(OPEN_MS); ;) {
        const { status, body: opened } = await api<OpenBody>('/v1/workspaces/open', {
          json: { key, template: 'base', ...body },
          headers: { prefer: 'wait=20' },
        })
        operation_id ??= opened.operation?.id ?? null
        if (status === 200 && opened.cell_endpoint && opened.tool_token)
          return { id: opened.workspace.id, endpoint: opened.cell_endpoint, token: opened.tool_token.token, operation_id }
        // A busy computer may take longer than a call waits, so the open is repeated. A failed open is not.
        const begins = status === 202 && opened.operation !== null && !isTerminal(opened.operation.state)
        if (!begins || performance.now() > deadline_ms) throw new Error(`open answered ${status}: ${JSON.stringify(opened)}`)
      }
    },
    async operate(path, options = {}) {
      const { status, body } = await api<{ id?: string; operation?: { id: string } }>(path, { method: 'POST', ...options })
      const id = body.operation?.id ?? body.id
      if (status !== 202 || id === undefined) throw new Error(`${path} answered ${status}: ${JSON.stringify(body)}`)
      return settle(id)
    },
    async token(workspace_id) {
      const { status, body } = await api<{ token: string }>(`/v1/workspaces/${workspace_id}/tool-tokens`, { json: {} })
      if (status !== 201) throw new Error(`tool-tokens answered ${status}: ${JSON.stringify(body)}`)
      return body.token
    },
    async run(workspace, argv, body = {}) {
      const started = await tool<{ session_id: string }>(workspace, '/exec', { json: { argv, ...body } })
      if (started.status !== 201 && started.status !== 200) throw new Error(`exec answered ${started.status}: ${started.bytes.toString()}`)
      const { session_id } = started.body
      const response = await send(`${workspace.endpoint}/v1/workspaces/${workspace.id}/exec/${session_id}/output`, {
        token: workspace.token,
      })
      const out = { stdout: [] as Buffer[], stderr: [] as Buffer[] }
      let exit: OutputEvent | null = null
      // Reads to the end, because leaving a stream early closes its connection.
      for await (const event of ndjson(response)) {
        if (event.type === 'output' && event.stream) out[event.stream].push(Buffer.from(event.data ?? '', 'base64'))
        if (event.type === 'error') throw new Error(`output ended with ${JSON.stringify(event)}`)
        if (event.type === 'exit') exit = event
      }
      if (exit === null) throw new Error('the output ended without an exit event')
      return {
        session_id,
        stdout: Buffer.concat(out.stdout).toString(),
        stderr: Buffer.concat(out.stderr).toString(),
        exit: exit as unknown as RunResult['exit'],
      }
    },
  }
}
