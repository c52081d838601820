import { Agent, type ClientRequest, type IncomingMessage, request } from 'node:http'
import type { Socket } from 'node:net'
import { Readable } from 'node:stream'
import { AgentTrouble } from './agent-trouble.ts'
import { TappedAgent } from './tapped.ts'

export interface AgentRequest {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** With its query; everything of the caller's in it is percent-encoded. */
  path: string
  /** Asking twice does no harm: a kept connection that turns out closed is replaced by a new one. */
  safe: boolean
  body?: Buffer | Readable
  content_length?: number
  /** The caller's Idempotency-Key, of the alphabet of keys. */
  key?: string
  signal?: AbortSignal
  /** The protocol that the connection is to be switched to. */
  upgrade?: string
  /** How long the agent may take to answer, where that is not the usual time. */
  answer_ms?: number
}

/** Connections to one incarnation of a machine. They end with it: its address may be another's afterwards. */
export interface AgentConnections {
  send(asked: AgentRequest): Promise<IncomingMessage>
  /** The connection itself, once it is switched; or the answer of an agent that did not. */
  switch(asked: AgentRequest & { upgrade: string }): Promise<{ response: IncomingMessage; socket: Socket | null }>
  close(): void
}

/** Of a connection, of an answer's head, and of the head of a call that has a time of its own. */
export const AGENT_DEADLINES = { connect_ms: 2000, header_ms: 30_000, longest_ms: Infinity }
/** The agent keeps idle connections for longer: the side that sends requests must be the one that closes. */
const IDLE_MS = 60_000
const HEADER_BYTES_MAX = 16 << 10

/** Where an agent is asked, and as whom. */
export interface AgentPlace {
  /** host:port, or the path of a socket. */
  address: string
  agent_key: string
  epoch: number
  /** What it speaks: links/agent-protocol.ts. */
  agent_protocol: number
}

export function openConnections(machine: AgentPlace, deadlines = AGENT_DEADLINES): AgentConnections {
  const to = placeOf(machine.address)
  // The gate bounds calls and streams of a workspace, so the number of sockets needs no second bound.
  const kept = { keepAlive: true, scheduling: 'lifo', timeout: IDLE_MS, maxFreeSockets: 16 } as const
  const agents = { tapped: new TappedAgent(kept), plain: new Agent(kept) }
  const headers = { authorization: `Bearer ${machine.agent_key}`, 'x-berth-epoch': String(machine.epoch) }
  const open = (asked: AgentRequest) =>
    request({
      ...to,
      agent: asked.upgrade === undefined ? agents.tapped : agents.plain, // what is switched is read by others than node:http
      method: asked.method,
      path: asked.path,
      headers: { ...headers, ...bodyHeaders(asked) },
      maxHeaderSize: HEADER_BYTES_MAX,
    })
  const begin = async (asked: AgentRequest) => {
    try {
      return await exchange(open(asked), asked, deadlines)
    } catch (error) {
      if (!(error instanceof StaleConnection) || !asked.safe || asked.body instanceof Readable) throw error
      return exchange(open(asked), asked, deadlines)
    }
  }
  return {
    send: async (asked) => (await begin(asked)).response,
    switch: begin,
    close() {
      agents.tapped.destroy()
      agents.plain.destroy()
    },
  }
}

/** host:port of a machine, or the path of a socket. */
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

/** A kept connection that the agent had closed: in all likelihood it never saw the call. */
class StaleConnection extends AgentTrouble {}

interface Exchanged {
  response: IncomingMessage
  /** The connection, when it was switched to another protocol. */
  socket: Socket | null
}

function exchange(
  sending: ClientRequest,
  { body, signal, upgrade, answer_ms }: AgentRequest,
  deadlines: typeof AGENT_DEADLINES,
): Promise<Exchanged> {
  return new Promise((resolve, reject) => {
    let connected = false
    let timer: NodeJS.Timeout | undefined
    const finish = () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', abort)
    }
    const lose = (trouble: Error) => {
      finish()
      sending.destroy()
      if (body instanceof Readable) body.unpipe(sending)
      reject(trouble)
    }
    const abort = () => lose(signal?.reason instanceof Error ? signal.reason : new Error('The call was given up'))
    const arm = () => {
      clearTimeout(timer)
      timer = setTimeout(() => lose(new AgentTrouble('silent', 'The agent did not answer in time')), answer_ms ?? deadlines.header_ms)
    }
    sending.once('socket', (socket) => {
      connected = !socket.connecting
      if (connected) return
      const late = setTimeout(
        () => lose(new AgentTrouble('unreachable', 'The agent did not accept a connection in time')),
        deadlines.connect_ms,
      )
      socket
        .once('connect', () => (connected = true))
        .once('connect', () => clearTimeout(late))
        .once('close', () => clearTimeout(late))
    })
    sending.once('finish', arm) // an upload takes what it takes; the agent's time starts when it is complete
    sending.once('response', (response) => {
      finish()
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
    sending.on('error', (cause: NodeJS.ErrnoException) => lose(troubleOf(cause, connected, sending.reusedSocket)))
    signal?.addEventListener('abort', abort)
    if (signal?.aborted) abort()
    else if (body instanceof Readable) body.pipe(sending)
    else sending.end(body)
  })
}

function troubleOf(cause: NodeJS.ErrnoException, connected: boolean, reused: boolean): AgentTrouble {
  if (cause.code?.startsWith('HPE_')) return new AgentTrouble('nonsense', 'The agent does not speak HTTP', { cause })
  if (!connected) return new AgentTrouble('unreachable', 'The agent could not be reached', { cause })
  if (reused && (cause.code === 'ECONNRESET' || cause.code === 'EPIPE')) {
    return new StaleConnection('cut', 'A kept connection to the agent was closed', { cause })
  }
  return new AgentTrouble('cut', 'The connection to the agent broke', { cause })
}
