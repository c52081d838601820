import type { FastifyInstance, FastifyRequest } from 'fastify'
import { ServerResponse, type IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { type WebSocket, WebSocketServer } from 'ws'
import type { Surface } from '../../contract/errors.ts'
import { pathsOf, patternOf, type Route } from '../../contract/route.ts'
import { ATTACH_PROTOCOL } from '../../contract/schemas/cell/attach.ts'
import type { Failure } from '../lib/fail.ts'
import type { Ids } from '../lib/ids.ts'
import { answerBrokenRequest } from './client-error.ts'
import { refusal } from './envelope.ts'

/** How a WebSocket ends: normally, because this process ends, or with a refusal that is sent first. */
export type WebSocketEnd = { code: 1000 | 1001 } | { failure: Failure; code?: number }

/**
 * Larger than the largest message of any route. A route refuses messages in between in the envelope; larger ones close the socket with
 * 1009.
 */
const MESSAGE_BYTES_MAX = 1 << 20
/** Time for the client to read pending data and to close its side. */
const CLOSE_WAIT_MS = 5000
/** Base of close codes: 4000 plus the status of the error (Cell, "Events"). */
const CLOSE_BASE = 4000

export interface WebSockets {
  /** @returns true for an upgrade request on a WebSocket route. */
  wants(request: IncomingMessage): boolean
  /** @returns true for an upgraded request that waits for the handshake. */
  upgraded(request: IncomingMessage): boolean
  /**
   * Completes the handshake. The socket is paused, so that no message is lost before a listener exists.
   * @returns null if the handshake was refused and answered
   */
  accept(request: FastifyRequest): WebSocket | null
  /** Sends a refusal, if there is one, and closes the socket. */
  leave(socket: WebSocket, goodbye: WebSocketEnd, request_id: string): void
  terminate(): void
}

/** Upgrade requests pass through the same router and pipeline as other requests. */
export function createWebSockets(surface: Surface, routes: readonly Route[], ids: Ids): WebSockets & { serve(app: FastifyInstance): void } {
  const paths = routes
    .filter(({ websocket }) => websocket !== undefined)
    .flatMap((route) => pathsOf(route).map(({ path }) => patternOf(path)))
  const waiting = new WeakMap<IncomingMessage, { socket: Duplex; head: Buffer }>()
  const request_ids = new WeakMap<IncomingMessage, string>()
  const server = new WebSocketServer({
    noServer: true,
    maxPayload: MESSAGE_BYTES_MAX,
    perMessageDeflate: false,
    handleProtocols: (offered) => (offered.has(ATTACH_PROTOCOL) ? ATTACH_PROTOCOL : false), // never selects the protocol that carries a token
  })
  server.on('headers', (headers, request) => {
    const id = request_ids.get(request)
    if (id !== undefined) headers.push(`x-request-id: ${id}`)
  })
  server.on('wsClientError', (_error, socket) => {
    if (socket instanceof Socket) answerBrokenRequest(surface, ids, {}, socket)
  })
  return {
    wants(request) {
      if (request.method !== 'GET' || request.headers.upgrade?.toLowerCase() !== 'websocket') return false
      const path = request.url?.split('?', 1)[0] ?? ''
      return paths.some((known) => known.test(path))
    },
    serve(app) {
      app.server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
        if (!(socket instanceof Socket)) return socket.destroy()
        const response = new ServerResponse(request)
        response.shouldKeepAlive = false
        response.once('finish', () => socket.destroySoon()) // no further request can be read from this socket
        response.assignSocket(socket) // reports a disconnect to the pipeline
        socket.on('error', () => socket.destroy())
        waiting.set(request, { socket, head })
        app.routing(request, response)
      })
    },
    upgraded: (request) => waiting.has(request),
    accept({ raw, id }) {
      const { socket, head } = waiting.get(raw) ?? {}
      if (socket === undefined || head === undefined) return null
      request_ids.set(raw, id)
      let accepted: WebSocket | null = null
      // The library calls back synchronously, or answers the broken handshake itself.
      server.handleUpgrade(raw, socket, head, (opened) => {
        opened.pause()
        opened.on('error', () => undefined) // an invalid message: the library closes with 1002, 1007 or 1009
        accepted = opened
      })
      return accepted
    },
    leave(socket, goodbye, request_id) {
      socket.resume()
      const late = setTimeout(() => socket.terminate(), CLOSE_WAIT_MS)
      socket.once('close', () => clearTimeout(late))
      if (!('failure' in goodbye)) return socket.close(goodbye.code)
      const { status, body } = refusal(surface, goodbye.failure, request_id)
      socket.send(JSON.stringify({ type: 'error', ...body }))
      socket.close(goodbye.code ?? CLOSE_BASE + status, JSON.stringify({ code: body.error.code }))
    },
    terminate: () => server.clients.forEach((socket) => socket.terminate()),
  }
}
