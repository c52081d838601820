import { Agent, type ClientRequest, type IncomingMessage, request } from 'node:http'
import type { Socket } from 'node:net'
import { Readable } from 'node:stream'
import { AgentFailure } from './agent-failure.ts'
import { RawReadAgent } from './raw-read.ts'

export interface AgentRequest {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** Includes the query; values from the caller are percent-encoded. */
  path: string
  /** Whether the call is repeatable: one that meets a closed keep-alive connection is then sent again on a new one. */
  safe: boolean
  body?: Buffer | Readable
  content_length?: number
  key?: string
  signal: AbortSignal
  upgrade?: string
  answer_ms?: number
  /** The deadline covers only the head: the relay watches the body. Without it, the whole answer must arrive in time. */
  streams?: boolean
}

export interface AgentConnections {
  send(asked: AgentRequest): Promise<IncomingMessage>
  /** Returns the switched connection, or the answer of an agent that did not switch. */
  switch(asked: AgentRequest & { upgrade: string }): Promise<{ response: IncomingMessage; socket: Socket | null }>
  close(): void
  /** Breaks the connections and opens no others: the machine has ended, and another may have its address. */
  end(): void
}

export interface AgentDeadlines {
  connect_ms: number
  /** From the call to the last byte of its answer; for a stream, to its head. */
  answer_ms: number
  /** Upper bound for a call with its own time limit. */
  longest_ms: number
  /** For a body from the caller, who has two minutes to send it. */
  upload_ms: number
  /** The longest silence in a streamed body while its reader waits. */
  idle_ms: number
}

export const AGENT_DEADLINES: AgentDeadlines = {
  connect_ms: 2000,
  answer_ms: 30_000,
  longest_ms: Infinity,
  upload_ms: 130_000,
  idle_ms: 30_000,
}
/** Below the agent's own timeout of idle connections: only the side that sends requests may close them safely. */
const IDLE_MS = 60_000
const HEADER_BYTES_MAX = 16 << 10

export interface AgentEndpoint {
  /** host:port, or the path of a socket. */
  address: string
  agent_key: string
  epoch: number
  /** The agent's protocol version: contract/internal/agent.ts. */
  agent_protocol: number
}

export function openConnections(machine: AgentEndpoint, deadlines: AgentDeadlines = AGENT_DEADLINES): AgentConnections {
  const to = placeOf(machine.address)
  // Admission bounds the calls and streams of a workspace, so sockets need no bound of their own.
  const kept = { keepAlive: true, scheduling: 'lifo', timeout: IDLE_MS, maxFreeSockets: 16 } as const
  const agents = { tapped: new RawReadAgent(kept), plain: new Agent(kept) }
  const headers = { authorization: `Bearer ${machine.agent_key}`, 'x-berth-epoch': String(machine.epoch) }
  const open = (asked: AgentRequest) =>
    request({
      ...to,
      agent: asked.upgrade === undefined ? agents.tapped : agents.plain, // a switched connection is not read by node:http
      method: asked.method,
      path: asked.path,
      headers: { ...headers, ...bodyHeaders(asked) },
      maxHeaderSize: HEADER_BYTES_MAX,
    })
  let ended = false
  const close = () => {
    agents.tapped.destroy()
    agents.plain.destroy()
  }
  const attempt = async (asked: AgentRequest) => {
    if (ended) throw new AgentFailure('unreachable', 'The machine has ended')
    return exchange(open(asked), asked, deadlines)
  }
  const begin = async (asked: AgentRequest) => {
    try {
      return await attempt(asked)
    } catch (error) {
      if (!(error instanceof StaleConnection) || !asked.safe || asked.body instanceof Readable) throw error
      return attempt(asked)
    }
  }
  return {
    send: async (asked) => (await begin(asked)).response,
    switch: begin,
    close,
    end() {
      ended = true
      close()
    },
  }
}

function placeOf(address: string): { host: string; port: string } | { socketPath: string; host: string } {
  if (address.startsWith('/')) return { socketPath: address, host: 'agent' }
  const [host = '', port = ''] = address.split(':')
  return { host, port }
}

function bodyHeaders({ body, content_length, key, upgrade }: AgentRequest): Record<string, string> {
  if (upgrade !== undefined) return { connection: 'Upgrade', upgrade }
  if (body === undefined) return {}
  const keyed = key === undefined ? {} : { 'idempotency-key': key }
  if (body instanceof Buffer) return { 'content-type': 'application/json', 'content-length': String(body.length), ...keyed }
  const length = content_length === undefined ? {} : { 'content-length': String(content_length) }
  return { 'content-type': 'application/octet-stream', ...length, ...keyed }
}

/** The agent had closed the kept connection and most likely never saw the call. */
class StaleConnection extends AgentFailure {}

interface Exchanged {
  response: IncomingMessage
  socket: Socket | null
}

function exchange(sending: ClientRequest, asked: AgentRequest, deadlines: AgentDeadlines): Promise<Exchanged> {
  const { body, signal, upgrade } = asked
  return new Promise((resolve, reject) => {
    let connected = false
    let answer: IncomingMessage | null = null
    let over = false
    const finish = () => {
      over = true
      clearTimeout(timer)
      signal.removeEventListener('abort', abort)
    }
    const lose = (trouble: Error) => {
      finish()
      answer?.destroy(trouble)
      sending.destroy()
      if (body instanceof Readable) body.unpipe(sending)
      reject(trouble)
    }
    const abort = () => lose(leftBy(signal))
    const late = () => lose(new AgentFailure('silent', 'The agent did not answer in time'))
    const answer_ms = asked.answer_ms ?? deadlines.answer_ms
    let timer = setTimeout(late, body instanceof Readable ? deadlines.upload_ms : answer_ms)
    boundConnecting(sending, deadlines.connect_ms, lose, () => (connected = true))
    if (body instanceof Readable) {
      sending.once('finish', () => {
        if (over) return // the answer came before the whole body was read
        clearTimeout(timer)
        timer = setTimeout(late, answer_ms)
      })
    }
    sending.once('response', (response) => {
      answer = response
      if (asked.streams && isSuccess(response.statusCode ?? 0)) clearTimeout(timer)
      response.once('close', finish).on('error', ignore)
      resolve({ response, socket: null })
    })
    if (upgrade !== undefined) {
      sending.once('upgrade', (response, socket, head) => {
        finish()
        socket.setTimeout(0)
        if (head.length > 0) socket.unshift(head)
        resolve({ response, socket })
      })
    }
    sending.on('error', (cause: NodeJS.ErrnoException) => {
      if (!over) lose(troubleOf(cause, connected, sending.reusedSocket))
    })
    signal.addEventListener('abort', abort)
    if (signal.aborted) abort()
    else if (body instanceof Readable) body.pipe(sending)
    else sending.end(body)
  })
}

export function isSuccess(status: number): boolean {
  return status >= 200 && status < 300
}

/** The caller has given up the call; no one reads this error. */
function leftBy(signal: AbortSignal): Error {
  return signal.reason instanceof Error ? signal.reason : new Error('The call was given up')
}

function boundConnecting(sending: ClientRequest, connect_ms: number, lose: (trouble: Error) => void, connected: () => void): void {
  sending.once('socket', (socket) => {
    if (!socket.connecting) return connected()
    const late = setTimeout(() => lose(new AgentFailure('unreachable', 'The agent did not accept a connection in time')), connect_ms)
    socket
      .once('connect', connected)
      .once('connect', () => clearTimeout(late))
      .once('close', () => clearTimeout(late))
  })
}

/** The reader of an answer receives its error. This handler prevents an error without a reader from ending the process. */
function ignore(): void {}

function troubleOf(cause: NodeJS.ErrnoException, connected: boolean, reused: boolean): AgentFailure {
  if (cause.code?.startsWith('HPE_')) return new AgentFailure('nonsense', 'The agent does not speak HTTP', { cause })
  if (!connected) return new AgentFailure('unreachable', 'The agent could not be reached', { cause })
  if (reused && (cause.code === 'ECONNRESET' || cause.code === 'EPIPE')) {
    return new StaleConnection('cut', 'A kept connection to the agent was closed', { cause })
  }
  return new AgentFailure('cut', 'The connection to the agent broke', { cause })
}
