// Long run only: a build without the cache takes minutes.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import http from 'node:http'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { createClient, type Client, type OpenedWorkspace } from '../support/client.ts'
import { isLong } from '../support/depth.ts'
import { startService, type Service } from '../support/service.ts'
import { cleanEnvironment } from '../support/sweep.ts'

const NAMES = ['node', 'python', 'code-interpreter', 'desktop']
const BUILD_MS = 30 * 60_000
const skip = isLong ? false : 'npm run test:long'

let service: Service
let client: Client
before(async () => {
  if (!isLong) return
  service = await startService({ settings: { slots: 1 } })
  client = createClient(service.base_url, service.api_key)
  assert.match(await publish(), /^node version 1\npython version 1\ncode-interpreter version 1\ndesktop version 1$/m)
})
after(() => (isLong ? service.stop() : undefined))

async function publish(): Promise<string> {
  const script = path.join(import.meta.dirname, '../../tools/templates.mjs')
  const options = { env: cleanEnvironment(), timeout: BUILD_MS, maxBuffer: 1 << 24 }
  const { stdout } = await promisify(execFile)(process.execPath, [script, '--data-dir', service.data_dir, ...NAMES], options)
  return stdout
    .split('\n')
    .filter((line) => / version \d+$/.test(line))
    .join('\n')
}

const shell = async (at: OpenedWorkspace, script: string) => {
  const { stdout, stderr, exit } = await client.run(at, ['bash', '-c', script])
  assert.equal(exit.exit_code, 0, stdout + stderr)
  return stdout.trim()
}

async function portOf({ id }: OpenedWorkspace, port: number) {
  const at = `/v1/workspaces/${id}/ports/${port}`
  const { url } = (await client.api<{ url: string }>(at, { method: 'PUT' })).body
  const { token } = (await client.api<{ token: string }>(`${at}/tokens`, { method: 'POST' })).body
  return (method: string, where: string, body?: object) => visit(new URL(where, url), method, token, body)
}

function visit({ hostname, host, port, pathname, search }: URL, method: string, token: string, body?: object) {
  assert.ok(hostname.endsWith('.localhost'))
  const headers = { host, authorization: `Bearer ${token}` }
  return new Promise<{ status: number; text: string }>((resolve, reject) => {
    const request = http.request({ host: '127.0.0.1', port, agent: false, method, path: pathname + search, headers }, (answer) => {
      const chunks: Buffer[] = []
      answer.on('data', (chunk: Buffer) => chunks.push(chunk))
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, text: Buffer.concat(chunks).toString() }))
      answer.on('error', reject)
    })
    request.on('error', reject)
    request.end(body === undefined ? undefined : JSON.stringify(body))
  })
}

test('a second publish of the templates publishes nothing', { skip }, async () => {
  assert.match(await publish(), /^node version 1\npython version 1\ncode-interpreter version 1\ndesktop version 1$/m)
})

test('the node template has its package managers and compiles native modules', { skip }, async () => {
  const workspace = await client.open('node', { template: 'node' })
  const versions = await shell(workspace, 'node --version; npm --version; pnpm --version; yarn --version')
  assert.match(versions, /^v24\.\d+\.\d+\n\d+\.\d+\.\d+\n\d+\.\d+\.\d+\n\d+\.\d+\.\d+$/)
  assert.equal(await shell(workspace, `echo 'int main(){return puts("built")<0;}' > a.c && gcc -w a.c -o a && ./a`), 'built')
})

test('the python template has IPython and pipx, and builds a C module', { skip }, async () => {
  const workspace = await client.open('python', { template: 'python' })
  assert.match(await shell(workspace, 'python --version; ipython3 --version; pipx --version'), /^Python 3\.\d+\.\d+\n\d.*\n\d/)
  const module =
    '#include <Python.h>\\nstatic struct PyModuleDef m = {PyModuleDef_HEAD_INIT, "own"};\\nPyMODINIT_FUNC PyInit_own(void){return PyModule_Create(&m);}'
  const build = `printf '${module}' > own.c && gcc -shared -fPIC $(python3-config --includes) own.c -o own.so && python -c 'import own; print(own.__name__)'`
  assert.equal(await shell(workspace, build), 'own')
})

interface Event {
  type: string
  text?: string
  data?: Record<string, string>
  name?: string
  value?: string
  status?: string
}

test('the code interpreter keeps variables also over a suspend, and returns rich results and errors', { skip }, async () => {
  const workspace = await client.open('interpreter', { template: 'code-interpreter' })
  const call = await portOf(workspace, 49_999)
  const run = async (code: string, more: object = {}) => {
    const { status, text } = await call('POST', '/execute', { code, ...more })
    assert.equal(status, 200, text)
    return text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Event)
  }
  const types = (events: Event[]) => events.map(({ type, status }) => status ?? type)
  assert.deepEqual(types(await run('x = 20')), ['ok'])
  const [result, end] = await run('x + 22')
  assert.deepEqual([result?.data?.['text/plain'], end?.status], ['42', 'ok'])
  const printed = await run('import sys; print("out"); print("err", file=sys.stderr)')
  assert.deepEqual(
    printed.map(({ type, text }) => [type, text]),
    [
      ['stdout', 'out\n'],
      ['stderr', 'err\n'],
      ['end', undefined],
    ],
  )
  const plotted = await run('import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()')
  const image = plotted.find(({ type }) => type === 'display')?.data?.['image/png'] ?? ''
  assert.deepEqual(Buffer.from(image, 'base64').subarray(1, 4).toString(), 'PNG')
  const table = await run('import pandas as pd; pd.DataFrame({"a": [1]})')
  assert.match(table[0]?.data?.['text/html'] ?? '', /<table/)
  const failed = await run('1 / 0')
  assert.deepEqual([failed[0]?.name, failed[0]?.value, failed.at(-1)?.status], ['ZeroDivisionError', 'division by zero', 'error'])
  const slow = await run('import time\nwhile True: time.sleep(0.1)', { timeout_seconds: 1 })
  assert.deepEqual([slow[0]?.name, slow.at(-1)?.status], ['KeyboardInterrupt', 'timeout'])

  const other = JSON.parse((await call('POST', '/contexts', { cwd: '/tmp' })).text) as { id: string }
  assert.deepEqual((await run('x', { context: other.id }))[0]?.name, 'NameError')
  assert.equal((await call('DELETE', `/contexts/${other.id}`)).status, 204)
  assert.deepEqual(types(await run('import os; os._exit(3)')), ['died'])
  assert.deepEqual((await run('x'))[0]?.name, 'NameError')

  await run('x = 1')
  assert.equal((await client.operate(`/v1/workspaces/${workspace.id}/suspend`)).state, 'succeeded')
  assert.equal((await run('x + 1'))[0]?.data?.['text/plain'], '2')
  const whole = JSON.parse((await call('POST', '/execute?stream=false', { code: 'print(x); x' })).text) as object
  assert.deepEqual(whole, {
    stdout: '1\n',
    stderr: '',
    results: [{ type: 'result', data: { 'text/plain': '1' } }],
    error: null,
    status: 'ok',
    ...count(whole),
  })
  for (const [body, status] of [
    [{}, 422],
    [{ code: 1 }, 422],
    [{ code: '', other: 1 }, 422],
    [{ code: '', timeout_seconds: 0 }, 422],
    [{ code: '', context: 'absent' }, 404],
  ] as const) {
    assert.equal((await call('POST', '/execute', body)).status, status, JSON.stringify(body))
  }
})

function count(of: object): object {
  return 'execution_count' in of ? { execution_count: of.execution_count } : {}
}

test('a browser sees the windows of the desktop template over a port', { skip }, async () => {
  const workspace = await client.open('desktop', { template: 'desktop', inputs: { DESKTOP_SIZE: '1000x700' } })
  assert.equal(await shell(workspace, "xdpyinfo | sed -n 's/ *dimensions: *\\([0-9x]*\\).*/\\1/p'"), '1000x700')
  const call = await portOf(workspace, 6080)
  const [page, novnc] = [await call('GET', '/'), await call('GET', '/vnc.html')]
  assert.deepEqual([page.status, /vnc\.html/.test(page.text), novnc.status, /noVNC/.test(novnc.text)], [200, true, 200, true])
  await shell(
    workspace,
    'setsid xterm -T shown -e sh -c "read line; echo \\$line > /tmp/typed" </dev/null >/dev/null 2>&1 & xdotool search --sync --name shown',
  )
  const colours = Number(await shell(workspace, 'scrot -o /tmp/shot.png && identify -format %k /tmp/shot.png'))
  assert.ok(colours > 1)
  await shell(
    workspace,
    'xdotool search --name shown windowactivate --sync type --delay 20 hello; xdotool key Return; for i in $(seq 100); do grep -q hello /tmp/typed && exit; sleep 0.1; done; exit 1',
  )
  const hello = `import socket, base64, os
s = socket.create_connection(("127.0.0.1", 6080)); key = base64.b64encode(os.urandom(16)).decode()
s.sendall(f"GET /websockify HTTP/1.1\\r\\nHost: a\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Key: {key}\\r\\nSec-WebSocket-Version: 13\\r\\nSec-WebSocket-Protocol: binary\\r\\n\\r\\n".encode())
data = b""
while b"RFB 003" not in data: data += s.recv(4096)
print("RFB")`
  assert.equal(await shell(workspace, `python3 -c '${hello}'`), 'RFB')
})
