import type { Server } from 'node:http'
import { WebSocketServer } from 'ws'
import type { Double } from '../../sdk/typescript/src/testing/double.ts'

export function serveSockets(server: Server, { options }: Pick<Double, 'options'>): () => void {
  const sockets = new WebSocketServer({ server })
  sockets.on('connection', (socket, { url: path, headers }) => {
    const protocols = (headers['sec-websocket-protocol'] ?? '').split(',').map((each) => each.trim())
    const inner = new options.WebSocket(`${options.url}${path ?? ''}`, protocols)
    const waiting: string[] = []
    inner.onopen = () => waiting.splice(0).forEach((text) => inner.send(text))
    inner.onmessage = ({ data }) => socket.send(String(data))
    inner.onclose = () => socket.close()
    socket.on('message', (data: Buffer) => (inner.readyState === 1 ? inner.send(data.toString()) : waiting.push(data.toString())))
    socket.on('close', () => inner.close())
  })
  return () => {
    sockets.close()
    for (const socket of sockets.clients) socket.terminate()
  }
}
