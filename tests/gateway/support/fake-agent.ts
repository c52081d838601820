import { createHash } from 'node:crypto'
import { EventEmitter, once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'

export const KIND = { stdout: 1, stderr: 2, exit: 3, heartbeat: 4, error: 5, record: 6 }

export function frame(kind: number, offset: number, data: Buffer | string = ''): Buffer {
  const bytes = Buffer.from(data)
  const head = Buffer.alloc(16)
  head.writeUInt8(kind, 0)
  head.writeUInt32BE(bytes.length, 4)
  head.writeBigUInt64BE(BigInt(offset), 8)
  return Buffer.concat([head, bytes])
}

export class FakeSession extends EventEmitter {
  readonly stdout: Buffer[] = []
  readonly stderr: Buffer[] = []
  readonly record: Record<string, unknown>
  readonly fingerprint: string
  readonly request: Record<string, unknown>
  available_from = 0
  /** null: stdin is not open. */
  stdin: Buffer | null
  stdin_closed = false
  /** Most bytes that the stdin pipe accepts of one write. */
  takes = Infinity

  constructor(request: Record<string, unknown>) {
    super()
    this.setMaxListeners(0)
    this.request = request
    this.stdin = request['stdin_open'] === true ? Buffer.from((request['stdin_base64'] as string | undefined) ?? '', 'base64') : null
    this.fingerprint = String(request['fingerprint'])
    this.record = {
      session_id: request['session_id'],
      argv: request['argv'],
      cwd: request['cwd'],
      user: request['user'],
      state: 'running',
      pid: 42,
      exit_code: null,
      term_signal: null,
      timed_out: false,
      started_at: '2026-01-01T00:00:00.000Z',
      ended_at: null,
      error: null,
    }
  }
  write(stream: 'stdout' | 'stderr', data: string | Buffer): void {
    this[stream].push(Buffer.from(data))
    this.emit('change')
  }
  exit(exit_code = 0): void {
    this.stdin_closed = true
    Object.assign(this.record, { state: 'exited', exit_code, ended_at: '2026-01-01T00:00:01.000Z' })
    this.emit('change')
  }
  view(): Record<string, unknown> {
    return {
      ...this.record,
      stdout_bytes: Buffer.concat(this.stdout).length,
      stderr_bytes: Buffer.concat(this.stderr).length,
      stdout_available_from: this.available_from,
      stderr_available_from: 0,
      ...(this.stdin === null ? {} : { stdin: this.#stdin() }),
    }
  }
  takeStdin(offset: number, bytes: Buffer, close: boolean): { offset: number; open: boolean } | 'stdin_gap' | 'stdin_closed' {
    if (this.stdin === null) return 'stdin_closed'
    const end = offset + bytes.length
    if (this.stdin_closed) return end <= this.stdin.length ? this.#stdin() : 'stdin_closed'
    if (offset > this.stdin.length) return 'stdin_gap'
    this.stdin = Buffer.concat([this.stdin, bytes.subarray(this.stdin.length - offset).subarray(0, this.takes)])
    if (close && this.stdin.length >= end) this.stdin_closed = true
    this.emit('change')
    return this.#stdin()
  }
  #stdin() {
    return { offset: this.stdin?.length ?? 0, open: !this.stdin_closed }
  }
}

export type Script = (request: IncomingMessage, response: ServerResponse) => void | Promise<void>

/** A set `script` answers instead, so that a test can send false answers. */
export class FakeAgent implements AsyncDisposable {
  readonly sessions = new Map<string, FakeSession>()
  readonly files = new Map<string, Buffer>()
  readonly seen: { method: string; url: string; headers: IncomingMessage['headers'] }[] = []
  readonly sockets = new Set<Socket>()
  connections = 0
  key = 'agent-key'
  script: Script | null = null
  git: Script | null = null
  /** The agent returns a start's output on request. An agent from an old checkpoint cannot. */
  follows = false
  /** null: the test itself writes the output. */
  play: ((session: FakeSession) => void) | null = null
  readonly kept = new Map<string, unknown>()
  upgrade: ((request: IncomingMessage, socket: Duplex) => void) | null = null
  readonly #server = createServer((request, response) => {
    void this.#serve(request, response).catch(() => response.destroy())
  })

  static async start(): Promise<FakeAgent> {
    const agent = new FakeAgent()
    agent.#server.keepAliveTimeout = 120_000
    agent.#server.on('connection', (socket) => {
      agent.connections += 1
      agent.sockets.add(socket)
      socket.on('close', () => agent.sockets.delete(socket))
    })
    agent.#server.on('upgrade', (request, socket) => agent.upgrade?.(request, socket))
    agent.#server.listen(0, '127.0.0.1')
    await once(agent.#server, 'listening')
    return agent
  }

  get address(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  cut(): void {
    for (const socket of this.sockets) socket.destroy()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.cut()
    this.#server.close()
    await Promise.resolve()
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.seen.push({ method: request.method ?? '', url: request.url ?? '', headers: request.headers })
    if (request.headers.authorization !== `Bearer ${this.key}`) return refuse(response, 401, 'unauthenticated')
    if (this.script) return this.script(request, response)
    const url = new URL(request.url ?? '', 'http://agent')
    const [, noun, id, verb] = url.pathname.split('/')
    if (noun === 'git' && this.git) return this.git(request, response)
    if (noun === 'exec') return this.#exec(request, response, url, decodeURIComponent(id ?? ''), verb)
    return this.#file(request, response, url, id)
  }

  async #exec(request: IncomingMessage, response: ServerResponse, url: URL, id: string, verb: string | undefined): Promise<void> {
    if (id === '' && request.method === 'GET') return answer(response, 200, this.#list(url))
    if (id === '') return this.#start(JSON.parse((await body(request)).toString()) as Record<string, unknown>, response, url)
    const session = this.sessions.get(id)
    if (!session) return refuse(response, 404, 'not_found', 'session_not_found')
    if (verb === 'output') return this.#output(response, session, url)
    if (verb === 'signal') session.record['signaled'] = JSON.parse((await body(request)).toString())
    if (verb === 'cancel') session.exit(-1)
    if (verb === 'stdin') {
      const { searchParams: asked } = url
      const at = session.takeStdin(Number(asked.get('offset')), await body(request), asked.get('close') === 'true')
      if (typeof at === 'string') return refuse(response, 409, 'conflict', at, { stdin_offset: session.stdin?.length ?? 0 })
      return answer(response, 200, at)
    }
    answer(response, 200, session.view())
  }

  /** The cursor is a position in the list of starts, newest first. */
  #list({ searchParams: asked }: URL) {
    const state = asked.get('state')
    const rows = [...this.sessions.values()]
      .map((session) => session.view())
      .filter((view) => state === null || (state === 'running') === (view['state'] === 'running'))
      .map(({ stdout_available_from: _out, stderr_available_from: _err, ...view }) => ({ ...view, argv_truncated: false }))
      .toReversed()
    const from = Number(asked.get('cursor') ?? 0)
    const to = from + Number(asked.get('limit') ?? 50)
    return { commands: rows.slice(from, to), next_cursor: to < rows.length ? String(to) : null }
  }

  async #start(asked: Record<string, unknown>, response: ServerResponse, url: URL): Promise<void> {
    const id = String(asked['session_id'])
    const known = this.sessions.get(id)
    if (known && known.fingerprint !== asked['fingerprint']) return refuse(response, 409, 'conflict', 'operation_id_reused')
    if (known) return answer(response, 200, known.view())
    const session = new FakeSession(asked)
    this.sessions.set(id, session)
    setImmediate(() => this.play?.(session))
    if (url.searchParams.get('follow') !== 'true' || !this.follows) return answer(response, 201, session.view())
    response.writeHead(201, { 'content-type': 'application/octet-stream' })
    response.write(frame(KIND.record, 0, JSON.stringify(session.view())))
    await this.#follow(response, session, url)
  }

  async #output(response: ServerResponse, session: FakeSession, url: URL): Promise<void> {
    const next = { stdout: Number(url.searchParams.get('stdout_offset') ?? 0), stderr: Number(url.searchParams.get('stderr_offset') ?? 0) }
    const totals = session.view()
    if (next.stdout > Number(totals['stdout_bytes'])) return refuse(response, 400, 'bad_request')
    if (next.stdout < session.available_from) {
      return refuse(response, 409, 'conflict', 'output_expired', { available_from: session.available_from })
    }
    response.writeHead(200, { 'content-type': 'application/octet-stream' })
    response.flushHeaders()
    await this.#follow(response, session, url, next)
  }

  async #follow(response: ServerResponse, session: FakeSession, url: URL, next = { stdout: 0, stderr: 0 }): Promise<void> {
    for (;;) {
      for (const stream of ['stdout', 'stderr'] as const) {
        const rest = Buffer.concat(session[stream]).subarray(next[stream])
        for (let at = 0; at < rest.length; at += 65_536) {
          const piece = rest.subarray(at, at + 65_536)
          if (!response.write(frame(KIND[stream], next[stream], piece))) await once(response, 'drain')
          next[stream] += piece.length
        }
      }
      const view = session.view()
      const caught_up = next.stdout === view['stdout_bytes'] && next.stderr === view['stderr_bytes']
      if (caught_up && view['state'] !== 'running') return void response.end(frame(KIND.exit, 0, JSON.stringify(view)))
      if (caught_up && url.searchParams.get('follow') === 'false') return void response.end()
      if (caught_up) await once(session, 'change')
    }
  }

  async #file(request: IncomingMessage, response: ServerResponse, url: URL, verb: string | undefined): Promise<void> {
    const path = url.searchParams.get('path') ?? ''
    if (request.method === 'PUT') return this.#write(request, response, url, path)
    const file = this.files.get(path)
    if (verb === 'list')
      return answer(response, 200, {
        entries: [...this.files.keys()].map((name) => info(name, this.files.get(name) as Buffer)),
        truncated: false,
      })
    if (verb === 'mkdir' || verb === 'move') return answer(response, verb === 'mkdir' ? 201 : 200, info('/made', Buffer.alloc(0)))
    if (!file) return refuse(response, 404, 'not_found', 'path_not_found', { path })
    if (verb === 'stat') return answer(response, 200, info(path, file))
    if (request.method === 'DELETE') {
      this.files.delete(path)
      return void response.writeHead(204).end()
    }
    const offset = Number(url.searchParams.get('offset') ?? 0)
    if (offset > file.length) return refuse(response, 416, 'range_not_satisfiable', undefined, { size: file.length })
    const part = file.subarray(offset, offset + Number(url.searchParams.get('length') ?? file.length))
    response.writeHead(part.length === file.length ? 200 : 206, {
      'content-length': part.length,
      'x-file-size': file.length,
      'x-file-revision': sha256(file),
    })
    response.end(part)
  }

  async #write(request: IncomingMessage, response: ServerResponse, url: URL, path: string): Promise<void> {
    const bytes = await body(request)
    const key = String(request.headers['idempotency-key'] ?? '')
    if (this.kept.has(key)) return answer(response, 200, this.kept.get(key))
    const whole = url.searchParams.get('append') === 'true' ? Buffer.concat([this.files.get(path) ?? Buffer.alloc(0), bytes]) : bytes
    this.files.set(path, whole)
    const written = { path, bytes_written: bytes.length, sha256: sha256(bytes), durable: true, revision: sha256(whole) }
    if (key !== '') this.kept.set(key, written)
    answer(response, 200, written)
  }
}

async function body(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk)
  return Buffer.concat(chunks)
}

export function answer(response: ServerResponse, status: number, value: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
}

function refuse(response: ServerResponse, status: number, code: string, reason?: string, details?: object): void {
  answer(response, status, { code, message: 'The agent says no', ...(reason ? { reason } : {}), ...(details ? { details } : {}) })
}

export function sha256(bytes: Buffer | string): string {
  return createHash('sha256').update(bytes).digest('hex')
}

function info(path: string, file: Buffer) {
  return {
    path,
    name: path.split('/').at(-1),
    type: 'file',
    size: file.length,
    mode: '0644',
    modified_at: '2026-01-01T00:00:00.000Z',
  }
}
