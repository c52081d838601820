import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { createClient, type Client, type OpenedWorkspace, refusalOf } from '../support/client.ts'
import { until } from '../support/processes.ts'
import { type SharedService, sharedService } from '../support/shared-services.ts'

const SMALL = { cpu_millis: 1000, memory_mib: 512, disk_gib: 2 }
const SERVE = `echo x >> /home/user/starts; exec python3 -c '
import http.server, os, time
class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/end": os._exit(3)
        self.send_response(200); self.end_headers(); self.wfile.write(os.environ["GREETING"].encode())
    def log_message(self, *_): pass
time.sleep(0.3)
http.server.HTTPServer(("127.0.0.1", 8080), Answers).serve_forever()'`
const SETTINGS = {
  env: { GREETING: 'hello' },
  inputs: { FAIL: { default: 'no' } },
  defaults: SMALL,
  ceiling: { ...SMALL, disk_gib: 4 },
  start: [
    { name: 'once', argv: ['sh', '-c', 'echo once >> /home/user/ran'] },
    // Neither a large output nor a background process may keep this command from ending.
    { name: 'loud', argv: ['sh', '-c', 'setsid sleep 1000 >/dev/null 2>&1 & head -c 50000000 /dev/zero | tr "\\\\0" x'] },
    { name: 'judge', argv: ['sh', '-c', 'echo judged >> /home/user/ran; [ "$FAIL" = no ] || { echo "FAIL is $FAIL" >&2; exit 9; }'] },
  ],
  services: [{ name: 'web', argv: ['sh', '-c', SERVE], ready: { port: 8080 } }],
}

let service: SharedService
let client: Client
before(async () => {
  service = await sharedService()
  client = createClient(service.base_url, service.api_key)
  const folder = mkdtempSync(path.join(tmpdir(), 'berth-startup-'))
  writeFileSync(path.join(folder, 'settings.json'), JSON.stringify(SETTINGS))
  await service.admin(
    'template',
    'publish',
    '--slug',
    'started',
    '--organization',
    service.organization,
    '--settings',
    path.join(folder, 'settings.json'),
  )
  rmSync(folder, { recursive: true })
})
after(() => service.stop())

const shell = async (at: OpenedWorkspace, script: string) => (await client.run(at, ['sh', '-c', script])).stdout.trim()
const FETCH = 'python3 -c "import urllib.request as r; print(r.urlopen(\'http://127.0.0.1:8080/\').read().decode())"'

test('an open answers when its service accepts connections, and clients can read start-up sessions but not start them', async () => {
  const opened = await client.open('web', { template: 'started' })
  assert.equal(await shell(opened, FETCH), 'hello')
  assert.equal(await shell(opened, 'cat /home/user/ran'), 'once\njudged')
  const session_id = `sfstart.web.${opened.operation_id}`
  const session = await client.tool<{ state: string }>(opened, `/exec/${session_id}`)
  assert.deepEqual([session.status, session.body.state], [200, 'running'])
  const refused = await client.tool(opened, '/exec', { json: { session_id, argv: ['true'] } })
  assert.deepEqual(refusalOf(refused), [422, 'validation_failed', 'reserved_prefix'])
})

test('a service that exits is restarted, survives suspend and resume, and does not count as activity', async () => {
  const opened = await client.open('web', { template: 'started' })
  await shell(opened, 'python3 -c "import urllib.request as r; r.urlopen(\'http://127.0.0.1:8080/end\')" 2>/dev/null')
  await until('it serves again', 20_000, async () => (await shell(opened, FETCH).catch(() => '')) === 'hello')
  assert.equal(await shell(opened, 'wc -l < /home/user/starts'), '2')
  const { body } = await client.api<{ idle: { recent_activity: { busy_until: string | null } } }>(`/v1/workspaces/${opened.id}`)
  assert.equal(body.idle.recent_activity.busy_until, null)
  assert.equal((await client.operate(`/v1/workspaces/${opened.id}/suspend`)).state, 'succeeded')
  const again = await client.open('web', { template: 'started' })
  assert.deepEqual([await shell(again, FETCH), await shell(again, 'wc -l < /home/user/starts')], ['hello', '2'])
})

test('a reset runs the whole start-up again', async () => {
  const opened = await client.open('web', { template: 'started' })
  assert.equal((await client.operate(`/v1/workspaces/${opened.id}/reset`, { json: { confirm_destructive: true } })).state, 'succeeded')
  const again = await client.open('web', { template: 'started' })
  assert.deepEqual([await shell(again, FETCH), await shell(again, 'wc -l < /home/user/starts')], ['hello', '1'])
  await client.operate(`/v1/workspaces/${opened.id}`, { method: 'DELETE' })
})

test('a failed step reports code and output, and an open runs it again without the steps before it, also with another input', async () => {
  const open = (inputs: object) =>
    client.api<{ workspace: { id: string; startup: Record<string, unknown> }; operation: { id: string } }>('/v1/workspaces/open', {
      json: { key: 'fails', template: 'started', inputs },
      headers: { prefer: 'wait=20' },
    })
  const { status, body } = await open({ FAIL: 'on purpose' })
  const failed = await client.operate(`/v1/workspaces/open`, { json: { key: 'fails', template: 'started' } }).catch(() => null)
  assert.equal(status, 202)
  const { startup } = (await client.api<{ startup: object }>(`/v1/workspaces/${body.workspace.id}`)).body
  assert.deepEqual(startup, { state: 'failed', step: 'judge', reason: 'startup_failed', exit_code: 9, output_tail: 'FAIL is on purpose\n' })
  assert.equal(failed?.error?.code, 'startup_failed')
  const opened = await client.open('fails', { template: 'started', inputs: { FAIL: 'no' } })
  assert.equal(await shell(opened, 'cat /home/user/ran'), 'once\njudged\njudged\njudged')
  assert.equal(await shell(opened, FETCH), 'hello')
})
