import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { after, before, test } from 'node:test'
import { attach } from '../support/attached.ts'
import { type Client, createClient, type OpenedWorkspace, ndjson, send } from '../support/client.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'
import { patience } from '../support/patience.ts'

let service: SharedService
let client: Client
before(async () => {
  service = await sharedService()
  client = createClient(service.base_url, service.api_key)
})
after(() => service.stop())

const SERVER = `
import sys, json
count = 0
while True:
    head = sys.stdin.buffer.readline()
    if not head: break
    length = int(head.split(b':')[1]); sys.stdin.buffer.readline()
    body = json.loads(sys.stdin.buffer.read(length)); count += 1
    text = json.dumps({'id': body['id'], 'count': count, 'echo': body['text']}).encode()
    sys.stdout.buffer.write(b'Content-Length: %d\\r\\n\\r\\n%s\\n' % (len(text), text)); sys.stdout.buffer.flush()
sys.exit(7)
`

class Driver {
  sent = 0
  read = 0
  asked = 0
  workspace: OpenedWorkspace
  constructor(workspace: OpenedWorkspace) {
    this.workspace = workspace
  }
  stdin(offset: number, bytes: Buffer, query = '') {
    const type = { 'content-type': 'application/octet-stream' }
    return client.tool<{ offset: number; open: boolean }>(this.workspace, `/exec/lsp/stdin?offset=${offset}${query}`, {
      method: 'POST',
      bytes,
      headers: type,
    })
  }
  request(text: string): Buffer {
    const body = Buffer.from(JSON.stringify({ id: (this.asked += 1), text }))
    return Buffer.concat([Buffer.from(`Content-Length: ${body.length}\r\n\r\n`), body])
  }
  /** Sends each request twice, like a client that has lost the first answer. */
  async round(text: string): Promise<void> {
    const bytes = this.request(text)
    for (let again = 0; again < 2; again++) {
      const { status, body } = await this.stdin(this.sent, bytes)
      assert.deepEqual([status, body], [200, { offset: this.sent + bytes.length, open: true }])
    }
    this.sent += bytes.length
    assert.deepEqual(await this.answer(), { id: this.asked, count: this.asked, echo: text })
  }
  async answer(): Promise<unknown> {
    const url = `${this.workspace.endpoint}/v1/workspaces/${this.workspace.id}/exec/lsp/output?stdout_offset=${this.read}`
    let text = Buffer.alloc(0)
    for await (const event of ndjson(await send(url, { token: this.workspace.token }))) {
      assert.equal(event.type, 'output', JSON.stringify(event))
      text = Buffer.concat([text, Buffer.from(event.data ?? '', 'base64')])
      const whole = /^Content-Length: \d+\r\n\r\n(.*)\n/s.exec(text.toString())
      if (whole === null) continue
      this.read += Buffer.byteLength(whole[0])
      return JSON.parse(whole[1] ?? '')
    }
    throw new Error('the output ended')
  }
}

test(
  'a language server can be driven through suspends and resumes, and its fork continues from the same byte',
  { timeout: patience(300_000) },
  async () => {
    const workspace = await client.open('lsp')
    const argv = ['python3', '-c', SERVER]
    const started = await client.tool(workspace, '/exec', { json: { session_id: 'lsp', argv, stdin_open: true } })
    assert.equal(started.status, 201)
    const driver = new Driver(workspace)
    for (let cycle = 0; cycle < 4; cycle++) {
      for (let turn = 0; turn < 10; turn++) await driver.round(`${cycle}.${turn} ${'é'.repeat(turn * 500)}`)
      const bytes = driver.request('cut')
      assert.equal((await driver.stdin(driver.sent, bytes.subarray(0, 9))).body.offset, driver.sent + 9)
      await client.operate(`/v1/workspaces/${workspace.id}/suspend`)
      await client.operate(`/v1/workspaces/${workspace.id}/resume`)
      workspace.token = await client.token(workspace.id)
      assert.equal((await driver.stdin(driver.sent, bytes)).body.offset, driver.sent + bytes.length)
      driver.sent += bytes.length
      assert.deepEqual(await driver.answer(), { id: driver.asked, count: driver.asked, echo: 'cut' })
    }
    const { result } = await client.operate(`/v1/workspaces/${workspace.id}/fork`, { json: { key: 'lsp-fork' } })
    const fork = await client.open('lsp-fork')
    assert.ok(result)
    const other = Object.assign(new Driver(fork), { sent: driver.sent, read: driver.read, asked: driver.asked })
    await driver.round('source')
    await other.round('fork')
    const closed = await other.stdin(other.sent, Buffer.alloc(0), '&close=true')
    assert.deepEqual(closed.body, { offset: other.sent, open: false })
    const { stdout: _, exit } = await client.run(fork, ['true'])
    assert.equal(exit.exit_code, 0)
    const attached = await attach(`${workspace.endpoint}/v1/workspaces/${workspace.id}/exec/lsp/attach?stdout_offset=${driver.read}`, {
      token: workspace.token,
    })
    attached.say({ type: 'stdin', offset: driver.sent, data: '', close: true })
    const [ack, end] = await attached.rest()
    assert.deepEqual([ack, end?.type, end?.['exit_code']], [{ type: 'stdin', offset: driver.sent, open: false }, 'exit', 7])
    for (const { id } of [fork, workspace]) await client.operate(`/v1/workspaces/${id}`, { method: 'DELETE' })
  },
)

test('a command that reads slowly gets megabytes of input, each byte once', { timeout: patience(300_000) }, async () => {
  const workspace = await client.open('slow-reader')
  const script =
    'import sys, time, hashlib\nh = hashlib.sha256()\nwhile b := sys.stdin.buffer.read(50000): h.update(b); time.sleep(0.001)\nprint(h.hexdigest())'
  await client.tool(workspace, '/exec', { json: { session_id: 'lsp', argv: ['python3', '-c', script], stdin_open: true } })
  const driver = new Driver(workspace)
  const data = Buffer.alloc(5 << 20, Buffer.from(Array.from({ length: 251 }, (_, at) => at)))
  let offset = 0
  while (offset < data.length) {
    const part = data.subarray(offset, offset + (1 << 20))
    const { status, body } = await driver.stdin(offset, part, offset + part.length === data.length ? '&close=true' : '')
    assert.equal(status, 200)
    assert.ok(body.offset >= offset && body.offset <= offset + part.length)
    offset = body.offset
  }
  const read = await client.tool(workspace, '/exec/lsp/output')
  const [first] = read.bytes.toString().split('\n')
  const { data: printed } = JSON.parse(first ?? '') as { data: string }
  assert.equal(Buffer.from(printed, 'base64').toString().trim(), createHash('sha256').update(data).digest('hex'))
  await client.operate(`/v1/workspaces/${workspace.id}`, { method: 'DELETE' })
})
