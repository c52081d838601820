// Needs its own installation, whose machines are frozen and hibernated.
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import http from 'node:http'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { type Chromium, openChromium } from '../support/chromium.ts'
import { createClient, type Client, type OpenedWorkspace } from '../support/client.ts'
import { depth } from '../support/depth.ts'
import { DEV_APP } from '../support/dev-app.ts'
import { machinesOf } from '../support/machines.ts'
import { PORT_APP } from '../support/port-app.ts'
import { until } from '../support/processes.ts'
import { startService, type Service } from '../support/service.ts'

const WAIT_MS = 120_000
const PARK = { freeze_after_seconds: 2, hibernate_after_seconds: 8 }
const HOOK_BYTES = 5 << 20

let service: Service
let client: Client
let workspace: OpenedWorkspace
let url: string
let token: string
before(async () => {
  service = await startService({ settings: { ...PARK, slot_memory_mib: 512 } })
  client = createClient(service.base_url, service.api_key)
  workspace = await client.open('app', { caps: { memory_mib: 512 } })
  // The app is outside of a command, which would prevent parking.
  await client.tool(workspace, '/files?path=/home/user/app.py', { method: 'PUT', bytes: Buffer.from(PORT_APP) })
  await client.run(workspace, ['sh', '-c', 'setsid python3 -u app.py </dev/null >/tmp/app.log 2>&1 &'], { cwd: '/home/user' })
  url = (await ports<{ url: string }>('PUT')).url
  token = (await ports<{ token: string }>('POST', '/tokens')).token
})
after(() => service.stop())

async function ports<T>(method: string, rest = '', json?: object): Promise<T> {
  const answer = await client.api<T>(`/v1/workspaces/${workspace.id}/ports/3000${rest}`, { method, ...(json ? { json } : {}) })
  assert.ok(answer.status < 300, answer.bytes.toString())
  return answer.body
}

interface Seen {
  method: string
  path: string
  headers: [string, string][]
  length?: number
  sha256?: string
}
interface Visited {
  status: number
  headers: http.IncomingHttpHeaders
  text: string
}

interface VisitOptions {
  method?: string
  headers?: Record<string, string>
  body?: Buffer
  /** Path sent as written, instead of the URL's. */
  raw_path?: string
}

function visit(where: string, options: VisitOptions = {}): Promise<Visited> {
  const { hostname, port, host, pathname, search } = new URL(where)
  assert.ok(hostname.endsWith('.localhost'))
  const { method = 'GET', headers = {}, body, raw_path = `${pathname}${search}` } = options
  return new Promise((resolve, reject) => {
    const sent = { method, path: raw_path, headers: { host, ...headers, ...(body ? { 'content-length': body.length } : {}) } }
    const request = http.request({ host: '127.0.0.1', port, agent: false, ...sent }, (answer) => {
      const chunks: Buffer[] = []
      answer.on('data', (chunk: Buffer) => chunks.push(chunk))
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, headers: answer.headers, text: Buffer.concat(chunks).toString() }))
      answer.on('error', reject)
    })
    request.on('error', reject)
    request.end(body)
  })
}

const bearer = () => ({ authorization: `Bearer ${token}` })
async function seen(): Promise<Seen[]> {
  const { status, text, headers } = await visit(`${url}/seen`, { headers: bearer() })
  assert.deepEqual([status, headers['x-service-reason']], [200, undefined], text)
  return JSON.parse(text) as Seen[]
}
async function stateOf(): Promise<string> {
  return (await client.api<{ observed_state: string }>(`/v1/workspaces/${workspace.id}`)).body.observed_state
}
async function suspend(): Promise<void> {
  const { state } = await client.operate(`/v1/workspaces/${workspace.id}/suspend`, { method: 'POST' })
  assert.equal(state, 'succeeded')
}
async function resumes(): Promise<number> {
  const [row] = await service.query<{ count: number }>(
    `select count(*)::integer as count from operations where workspace_id = $1 and kind = 'resume'`,
    [workspace.id],
  )
  return row?.count ?? 0
}

test('a request reaches the app of a running workspace with the public host name and without the credential', async () => {
  const own = await visit(url, {
    raw_path: '//a/../b%2Fc?x=1',
    headers: { 'x-service-token': token, authorization: 'Basic b3duOm93bg==', 'x-forwarded-for': '1.2.3.4' },
  })
  assert.equal(own.status, 200, own.text)
  const last = (JSON.parse(own.text) as Seen[]).at(-1)
  const header = (name: string) => last?.headers.filter(([each]) => each.toLowerCase() === name).map(([, value]) => value)
  assert.equal(last?.path, '//a/../b%2Fc?x=1')
  assert.deepEqual([header('host'), header('x-forwarded-host')], [[new URL(url).host], [new URL(url).host]])
  assert.deepEqual([header('authorization'), header('x-service-token')], [['Basic b3duOm93bg=='], []])
  assert.deepEqual([header('x-forwarded-for'), header('x-forwarded-proto')], [['127.0.0.1'], ['http']])
  assert.ok(!JSON.stringify(await seen()).includes(token))
})

test('a missing credential, a wrong one and one of another workspace are refused with a reason', async () => {
  const other = `${url.replace('://3000-', '://3001-')}/`
  const refused = [
    await visit(url),
    await visit(url, { headers: { authorization: `Bearer sfp_${'A'.repeat(43)}` } }),
    await visit(other, { headers: bearer() }),
  ]
  assert.deepEqual(
    refused.map(({ status, headers }) => [status, headers['x-service-reason']]),
    [
      [401, 'credential_missing'],
      [401, 'credential_invalid'],
      [401, 'credential_invalid'],
    ],
  )
  const told = async (reason: string) => (await service.metrics('cell')).get(`berth_port_refusals_total{reason="${reason}"}`) ?? 0
  await until('operators see both', 30_000, async () => (await told('credential_missing')) >= 1 && (await told('credential_invalid')) >= 2)
})

test('a frozen machine and a hibernated one are woken within the request', async () => {
  const machines = machinesOf(service)
  await until('it is frozen', WAIT_MS, async () => (await machines.stateOf(workspace.id)) === 'frozen')
  const before = (await seen()).length
  await until('it is hibernated', WAIT_MS, async () => {
    const [row] = await service.query<{ residency: string }>('select residency from workspaces where id = $1', [workspace.id])
    return row?.residency === 'hibernated'
  })
  assert.equal((await seen()).length, before + 1)
})

test('a request resumes a suspended workspace with its memory, and waits for a suspend in progress', async () => {
  const before = (await seen()).length
  await suspend()
  assert.equal((await seen()).length, before + 1)
  const suspending = client.operate(`/v1/workspaces/${workspace.id}/suspend`, { method: 'POST' })
  await until('it is being suspended', WAIT_MS, async () => (await stateOf()) !== 'running')
  assert.equal((await seen()).length, before + 2)
  assert.equal((await suspending).state, 'succeeded')
  assert.equal(await stateOf(), 'running')
})

test('a thousand requests without a valid credential do not wake a suspended workspace', async () => {
  await suspend()
  const before = await resumes()
  let refused = 0
  for (let round = 0; round < 20; round++) {
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, n) =>
        visit(url, n % 2 === 0 ? {} : { headers: { authorization: `Bearer sfp_${randomBytes(32).toString('base64url')}` } }),
      ),
    )
    refused += answers.filter(
      ({ status, headers }) => (status === 401 || status === 429) && headers['x-service-reason'] !== undefined,
    ).length
  }
  assert.deepEqual([refused, await stateOf(), await resumes()], [1000, 'suspended', before])
})

test('a webhook of 5 MiB to a suspended workspace arrives once and complete, without its secret', async () => {
  if ((await stateOf()) === 'running') await suspend()
  const callback = (await ports<{ url: string }>('POST', '/callback')).url
  const body = randomBytes(HOOK_BYTES)
  const answer = await visit(`${callback}hook/push?delivery=7`, { method: 'POST', body })
  assert.equal(answer.status, 200, answer.text)
  const delivered = (await seen()).filter(({ method }) => method === 'POST')
  assert.deepEqual(
    delivered.map(({ path, length, sha256 }) => ({ path, length, sha256 })),
    [{ path: '/hook/push?delivery=7', length: HOOK_BYTES, sha256: createHash('sha256').update(body).digest('hex') }],
  )
  assert.ok(!JSON.stringify(await seen()).includes('sfcb_'))
  await ports('DELETE', '/callback')
  await until('the callback URL is over', WAIT_MS, async () => (await visit(`${callback}x`, { method: 'POST' })).status === 401)
})

const LISTENER = `
import http.server, sys, time
from http.server import ThreadingHTTPServer as Server
class App(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'here')
server = Server((sys.argv[1], 5173), App)
if len(sys.argv) > 2:
    time.sleep(float(sys.argv[2]))
    server.server_close()
    server = Server(('0.0.0.0', 5173), App)
server.serve_forever()
`

test('a visitor learns at once that a server listens only on loopback, and reaches it once it listens everywhere', async () => {
  workspace = await client.open('app', { caps: { memory_mib: 512 } }) // a token of its epoch
  const port = `/v1/workspaces/${workspace.id}/ports/5173`
  const at = (await client.api<{ url: string }>(port, { method: 'PUT' })).body.url
  const bearer_of = (await client.api<{ token: string }>(`${port}/tokens`, { method: 'POST' })).body.token
  const headers = { authorization: `Bearer ${bearer_of}` }
  await client.tool(workspace, '/files?path=/home/user/listener.py', { method: 'PUT', bytes: Buffer.from(LISTENER) })
  const stop = () => client.run(workspace, ['sh', '-c', `pkill -f '[l]istener.py'; true`])
  const listen = async (...argv: string[]) => {
    await stop()
    await client.run(workspace, ['sh', '-c', `setsid python3 listener.py ${argv.join(' ')} </dev/null >/tmp/listener.log 2>&1 &`], {
      cwd: '/home/user',
    })
  }
  const upgrade = { ...headers, connection: 'Upgrade', upgrade: 'websocket' }
  try {
    for (const [address, named] of Object.entries({ '127.0.0.1': '127.0.0.1:5173', '127.0.0.2': '127.0.0.2:5173' })) {
      await listen(address)
      const begun = performance.now()
      const refused = await visit(`${at}/`, { headers })
      const took_ms = performance.now() - begun
      assert.deepEqual([refused.status, refused.headers['x-service-reason']], [502, 'app_listens_elsewhere'], refused.text)
      const { error } = JSON.parse(refused.text) as { error: { message: string; details: object } }
      assert.ok(error.message.includes(`${named} only`) && error.message.includes('--host 0.0.0.0'), error.message)
      assert.ok(took_ms < 20_000, `${took_ms} ms`) // a visitor waits 30 s if nothing listens
      const page = await visit(`${at}/`, { headers: { ...headers, accept: 'text/html' } })
      assert.ok(page.headers['content-type']?.startsWith('text/html') && page.text.includes(`${named} only`), page.text)
      assert.equal((await visit(`${at}/`, { headers: upgrade })).headers['x-service-reason'], 'app_listens_elsewhere')
    }
    await listen('127.0.0.1', '0.2')
    assert.equal((await visit(`${at}/`, { headers })).text, 'here')
  } finally {
    await stop()
    await client.api(port, { method: 'DELETE' })
  }
})

async function browser(): Promise<Chromium> {
  const [template] = await service.query<{ layers: string[] }>(
    `select v.layers from template_versions v join templates t on t.id = v.template_id where t.slug = 'browser' order by v.version desc limit 1`,
  )
  return openChromium(path.join(service.data_dir, 'layers', `${template?.layers[0]}.erofs`))
}
/** Repeats: the previous test may have used up this address's rate limit. */
async function visitCalmly(where: string): Promise<Visited> {
  let answer = await visit(where)
  await until('the address may ask again', WAIT_MS, async () => answer.status !== 429 || (answer = await visit(where)).status !== 429)
  return answer
}

test('after the answer that revokes a credential, no request with it reaches the app', async () => {
  const made = async () => (await ports<{ url: string }>('POST', '/callback')).url
  const revoking = {
    replaced: made,
    deleted: () => ports('DELETE', '/callback'),
    closed: () => ports('DELETE'),
  }
  for (let round = 0; round < depth({ short: 4, long: 200 }); round += 1) {
    for (const [kind, revoke] of Object.entries(revoking)) {
      const callback = await made()
      assert.equal((await visitCalmly(callback)).status, 200)
      await revoke()
      assert.equal((await visitCalmly(callback)).status, 401, `${kind}, round ${round}`)
    }
    await ports('PUT')
  }
  token = (await ports<{ token: string }>('POST', '/tokens')).token
})

const titleOf = (chromium: Chromium) => (what: string) =>
  // Repeats, because a page in the middle of a reload does not answer.
  until(`the title is ${what}`, WAIT_MS, async () => (await chromium.evaluate('document.title').catch(() => null)) === what)

test('Chromium opens a signed link to an app with a WebSocket in a suspended workspace, and closing the port cuts it', async () => {
  const chromium = await browser()
  try {
    const title = titleOf(chromium)
    await suspend()
    const link = await ports<{ url: string }>('POST', '/links', { path: '/page?a=b' })
    await chromium.goto(link.url)
    await title('echo:first')
    assert.equal(await chromium.evaluate('location.href'), `${url}/page?a=b`)
    await chromium.evaluate(`say('again')`)
    await title('echo:again')
    // The app gets the page's cookie. Neither app nor page gets a cookie of the service.
    await chromium.evaluate(`location.reload()`)
    await title('echo:first')
    assert.equal(await chromium.evaluate('document.cookie'), 'app=1')
    const pages = (await seen()).filter((one) => one.path.startsWith('/page') || one.path === '/socket')
    const cookies = pages.flatMap(({ headers }) => headers.filter(([name]) => name.toLowerCase() === 'cookie').map(([, value]) => value))
    assert.deepEqual([new Set(cookies), pages.length], [new Set(['app=1']), 4])
    assert.ok(!JSON.stringify(pages).includes('sfc_') && !JSON.stringify(pages).includes('sfl_'))
    // Wait longer than the parking timeout: an open WebSocket must keep the machine awake.
    await ports('DELETE')
    await title('closed')
    assert.equal((await visit(url, { headers: bearer() })).headers['x-service-reason'], 'credential_invalid')
  } finally {
    await chromium.close()
  }
})

test('in a resumed workspace a page reloads when its file changes, and a page has a terminal', async () => {
  const work = await client.open('work', { caps: { memory_mib: 512 } })
  const put = async (name: string, text: string) => {
    const bytes = Buffer.from(text)
    assert.equal((await client.tool(work, `/files?path=/home/user/${name}`, { method: 'PUT', bytes })).status, 200)
  }
  await put('page.txt', 'one')
  await put('dev.py', DEV_APP)
  await client.run(work, ['sh', '-c', 'setsid python3 -u dev.py </dev/null >/tmp/dev.log 2>&1 &'], { cwd: '/home/user' })
  const port = `/v1/workspaces/${work.id}/ports/5173`
  assert.equal((await client.api(port, { method: 'PUT' })).status, 200)
  const link = async (to: string) => (await client.api<{ url: string }>(`${port}/links`, { json: { path: to } })).body.url
  assert.equal((await client.operate(`/v1/workspaces/${work.id}/suspend`)).state, 'succeeded')
  const chromium = await browser()
  try {
    const title = titleOf(chromium)
    await chromium.goto(await link('/'))
    await title('one')
    work.token = await client.token(work.id)
    for (const text of ['two', 'three']) {
      await put('page.txt', text)
      await title(text)
    }
    await chromium.goto(await link('/terminal'))
    await title('ready')
    await chromium.evaluate(`type('echo $((6 * 7))-$PWD\\n')`)
    const screen = `document.getElementById('screen').textContent`
    await until('the shell has answered', WAIT_MS, async () => String(await chromium.evaluate(screen)).includes('42-/home/user'))
    const counted = async () => {
      const all = await service.metrics('cell')
      return ['berth_port_leases', 'berth_port_requests_total', 'berth_port_bytes_total{direction="sent"}'].map(
        (name) => all.get(name) ?? 0,
      )
    }
    await until('an operator sees it', WAIT_MS, async () => (await counted()).every((count) => count > 0))
  } finally {
    await chromium.close()
  }
})
