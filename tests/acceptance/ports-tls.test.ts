// Needs its own installation: the tests kill its processes.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import http from 'node:http'
import https from 'node:https'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { TLSSocket } from 'node:tls'
import { makePortsAuthority } from '../../service/admin/ports-authority.ts'
import { type Client, createClient, type OpenedWorkspace } from '../support/client.ts'
import { until } from '../support/processes.ts'
import { freePorts, type Service, startService } from '../support/service.ts'

const WAIT_MS = 120_000
const APP = `
import http.server, json, time
class App(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def log_message(self, *args): pass
    def do_GET(self):
        self.send_response(200)
        self.send_header('transfer-encoding', 'chunked')
        self.end_headers()
        def chunk(text):
            self.wfile.write(b'%x\\r\\n%s\\r\\n' % (len(text), text.encode()))
            self.wfile.flush()
        tick = 0
        while self.path == '/ticks':
            tick += 1
            chunk(f'{tick}\\n')
            time.sleep(0.1)
        chunk(json.dumps({name.lower(): value for name, value in self.headers.items()}))
        self.wfile.write(b'0\\r\\n\\r\\n')
http.server.ThreadingHTTPServer(('0.0.0.0', 3000), App).serve_forever()
`

const folder = mkdtempSync(path.join(tmpdir(), 'berth-ca-'))
let service: Service
let client: Client
let workspace: OpenedWorkspace
let url: string
let token: string

function makeCertificate(ports_url: string): void {
  const output = { line: () => undefined, note: () => undefined }
  assert.equal(makePortsAuthority([folder], ports_url, output, new Date()), 0)
  chmodSync(folder, 0o755)
  chmodSync(path.join(folder, 'key.pem'), 0o644) // the user of portd must be able to read the key
}

before(async () => {
  const [port] = await freePorts(1)
  const ports_url = `https://ports.localhost:${port}`
  makeCertificate(ports_url)
  const files = { ports_certificate: path.join(folder, 'certificate.pem'), ports_key: path.join(folder, 'key.pem') }
  service = await startService({ settings: { ports_listen: `127.0.0.1:${port}`, ports_url, ...files } })
  client = createClient(service.base_url, service.api_key)
  workspace = await client.open('app', { caps: { memory_mib: 512 } })
  await client.tool(workspace, '/files?path=/home/user/app.py', { method: 'PUT', bytes: Buffer.from(APP) })
  await client.run(workspace, ['sh', '-c', 'setsid python3 -u app.py </dev/null >/tmp/app.log 2>&1 &'], { cwd: '/home/user' })
  url = (await ports<{ url: string }>('PUT')).url
  token = (await ports<{ token: string }>('POST', '/tokens')).token
})
after(async () => {
  await service.stop()
  rmSync(folder, { recursive: true })
})

async function ports<T>(method: string, rest = '', options: { token?: string; json?: object } = {}): Promise<T> {
  const answer = await client.api<T>(`/v1/workspaces/${workspace.id}/ports/3000${rest}`, { method, ...options })
  assert.ok(answer.status < 300, answer.bytes.toString())
  return answer.body
}

/** With `authority` null, the client does not trust the test's authority. */
async function open(where: string, authority: string | null, headers: http.OutgoingHttpHeaders = {}): Promise<http.IncomingMessage> {
  const { hostname, port, host, pathname, search } = new URL(where)
  const trust = authority === null ? {} : { ca: readFileSync(path.join(folder, authority)) }
  const request = https.get({
    ...{ host: '127.0.0.1', port, servername: hostname, path: `${pathname}${search}`, agent: false, headers: { host, ...headers } },
    ...trust,
  })
  const [answer] = (await once(request, 'response')) as [http.IncomingMessage]
  request.on('error', () => undefined) // the reader of the answer gets it
  return answer
}
const bearer = () => ({ authorization: `Bearer ${token}` })
const visit = (where = url) => open(where, 'authority.pem', bearer())
async function textOf(answer: http.IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of answer as AsyncIterable<Buffer>) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}
const serves = async () => {
  const answer = await visit().catch(() => null) // the service is being started again
  answer?.resume()
  return answer?.statusCode === 200
}

async function ticks(): Promise<{ next(count: number): Promise<void>; ended: Promise<unknown> }> {
  const answer = await visit(`${url}/ticks`)
  assert.equal(answer.statusCode, 200)
  let heard = 0
  let more = Promise.withResolvers<void>()
  let rest = ''
  answer.on('data', (chunk: Buffer) => {
    const lines = `${rest}${chunk.toString()}`.split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) assert.equal(Number(line), (heard += 1))
    more.resolve()
    more = Promise.withResolvers()
  })
  const ended = new Promise((resolve) => answer.once('close', resolve).once('error', () => undefined))
  return {
    ended,
    async next(count) {
      for (const wanted = heard + count; heard < wanted;) await more.promise
    },
  }
}

test('over TLS only a client that trusts the authority is served, and the cookie of a link is bound to TLS and this host', async () => {
  await assert.rejects(open(url, null, bearer()), {
    code: /SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_VERIFY_LEAF_SIGNATURE|UNABLE_TO_GET_ISSUER/,
  })
  const answer = await visit()
  const seen = JSON.parse(await textOf(answer)) as Record<string, string>
  assert.deepEqual([answer.statusCode, seen['x-forwarded-proto'], seen['host']], [200, 'https', new URL(url).host])
  const link = await ports<{ url: string }>('POST', '/links', { json: { path: '/in' } })
  const led = await open(link.url, 'authority.pem')
  led.resume()
  const [cookie = ''] = led.headers['set-cookie'] ?? []
  assert.deepEqual([led.headers['location'], /^__Host-[^=]+=/.test(cookie)], ['/in', true], cookie)
  for (const word of ['Secure', 'HttpOnly', 'SameSite=Lax', 'Path=/']) assert.ok(cookie.includes(`; ${word}`), cookie)
  assert.ok(!/domain=/i.test(cookie), cookie)
})

test('a new certificate is in use within seconds, and streams continue', async () => {
  const shown = async () => {
    const answer = await visit()
    assert.ok(answer.socket instanceof TLSSocket)
    const { fingerprint256 } = answer.socket.getPeerCertificate()
    answer.resume()
    return fingerprint256
  }
  const before = await shown()
  const stream = await ticks()
  makeCertificate(new URL(url).origin.replace(/\/\/[^.]+\./, '//'))
  await until('the new one is shown', WAIT_MS, async () => (await shown()) !== before)
  await stream.next(3)
})

test('a stream continues over a kill and restart of the cell, after which new requests are served', async () => {
  const stream = await ticks()
  await stream.next(2)
  await service.kill9('cell')
  await service.ready()
  await until('it serves again', WAIT_MS, serves)
  await stream.next(5)
})

test('a kill of portd cuts its streams, and the next portd accepts the same credentials', async () => {
  const stream = await ticks()
  await stream.next(2)
  await service.kill9('portd')
  await stream.ended
  await until('another one serves', WAIT_MS, serves)
  const again = await ticks()
  await again.next(3)
})
