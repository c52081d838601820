import http from 'node:http'
import { WebSocket } from 'ws'
import type { Client, OpenedWorkspace } from '../support/client.ts'

export interface PortGuest {
  workspace: OpenedWorkspace
  visit(): Promise<void>
  stream(take: (bytes: number) => void): Promise<() => void>
  talk(): Promise<() => void>
}

/** Sends 1 MiB every 20 ms: 50 MiB/s. */
export const PORT_GUEST_APP = `
import base64, hashlib, http.server, time
class App(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def log_message(self, *args):
        pass
    def do_GET(self):
        if self.path == '/stream':
            return self.stream()
        if self.headers.get('upgrade'):
            return self.echo()
        self.send_response(200)
        self.send_header('content-length', '2')
        self.end_headers()
        self.wfile.write(b'ok')
    def stream(self):
        self.send_response(200)
        self.send_header('content-length', str(1 << 50))
        self.end_headers()
        part, due = b'x' * (1 << 20), time.monotonic()
        while True:
            self.wfile.write(part)
            due = max(due + 0.02, time.monotonic() - 0.1)
            time.sleep(max(0, due - time.monotonic()))
    def echo(self):
        key = self.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
        self.send_response(101)
        self.send_header('upgrade', 'websocket')
        self.send_header('connection', 'upgrade')
        self.send_header('sec-websocket-accept', base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        self.close_connection = True
        while head := self.rfile.read(2):
            length = head[1] & 127
            mask = self.rfile.read(4)
            data = bytes(byte ^ mask[i % 4] for i, byte in enumerate(self.rfile.read(length)))
            self.wfile.write(bytes([head[0], length]) + data)
            if head[0] & 15 == 8:
                return
http.server.ThreadingHTTPServer.request_queue_size = 256
http.server.ThreadingHTTPServer(('0.0.0.0', 3000), App).serve_forever()
`

const SAYS_MS = 1000

export async function openPortGuest(client: Client, key: string): Promise<PortGuest> {
  const workspace = await client.open(key, { caps: { memory_mib: 512, disk_gib: 1 } })
  await client.tool(workspace, '/files?path=/home/user/app.py', { method: 'PUT', bytes: Buffer.from(PORT_GUEST_APP) })
  await client.run(workspace, ['sh', '-c', 'setsid python3 app.py </dev/null >/dev/null 2>&1 &'], { cwd: '/home/user' })
  const port = `/v1/workspaces/${workspace.id}/ports/3000`
  const { url } = (await client.api<{ url: string }>(port, { method: 'PUT' })).body
  const { token } = (await client.api<{ token: string }>(`${port}/tokens`, { method: 'POST' })).body
  const { host, port: listens } = new URL(url)
  const at = { host: '127.0.0.1', port: listens, agent: false as const, headers: { host, authorization: `Bearer ${token}` } }
  const ask = (path: string) =>
    new Promise<http.IncomingMessage>((resolve, reject) => {
      http.get({ ...at, path }, resolve).on('error', reject)
    })
  const checked = async (path: string) => {
    const answer = await ask(path)
    if (answer.statusCode === 200) return answer
    answer.destroy()
    throw new Error(`The port answered ${answer.statusCode} ${String(answer.headers['x-service-reason'])}`)
  }
  const guest: PortGuest = {
    workspace,
    async visit() {
      const answer = await checked('/')
      for await (const _part of answer);
    },
    async stream(take) {
      const answer = await checked('/stream')
      answer.on('data', (part: Buffer) => take(part.length))
      answer.on('error', () => undefined) // the test destroys the answer at the end
      return () => void answer.destroy()
    },
    async talk() {
      const socket = new WebSocket(`ws://127.0.0.1:${listens}/`, { headers: at.headers, perMessageDeflate: false })
      await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject))
      socket.on('error', () => undefined)
      const says = setInterval(() => socket.send('something'), SAYS_MS)
      return () => {
        clearInterval(says)
        socket.terminate()
      }
    },
  }
  await guest.visit() // waits until the app listens
  return guest
}
