// Needs its own installation, whose machines reach a fake internet.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { inflateSync } from 'node:zlib'
import type { Process } from '../../contract/schemas/cell/process.ts'
import { type Client, createClient, ndjson, type OpenedWorkspace, refusalOf, send } from '../support/client.ts'
import { depth } from '../support/depth.ts'
import { INTERNET_ADDRESS, type Internet, openInternet } from '../support/internet.ts'
import { type Service, startService } from '../support/service.ts'
import { cleanEnvironment } from '../support/sweep.ts'
import { patience } from '../support/patience.ts'

const SITE = 'http://127.0.0.1:8000'
let internet: Internet
let service: Service
let client: Client
let workspace: OpenedWorkspace

const PAGES: Record<string, string> = {
  'red.html': '<!doctype html><title>Red</title><body style="margin:0;background:#f00">',
  'tall.html': '<!doctype html><body style="margin:0"><div style="height:3000px;background:#00f"></div>',
  'script.html':
    '<!doctype html><p id=p>before</p><script>setTimeout(() => { p.textContent = "after " + innerWidth }, Number(location.search.slice(1)))</script>',
  'cookie.html':
    '<!doctype html><p id=p></p><script>p.textContent = "had:" + document.cookie; document.cookie = "seen=1; max-age=900"</script>',
  'dialog.html': '<!doctype html><p id=p>x</p><script>alert("stop"); p.textContent = "went on: " + confirm("sure?")</script>',
  'leave.html': '<!doctype html><script>location.replace("/red.html")</script>',
  'file.html':
    '<!doctype html><p>stays</p><script>location.href = "file:///etc/passwd"; window.open("file:///etc/passwd")</script><iframe src="file:///etc/passwd"></iframe>',
  'busy.html': '<!doctype html><script>for (;;);</script>',
  'download.bin': 'bytes',
}

before(async () => {
  internet = await openInternet()
  service = await startService({ settings: { uplink: internet.uplink } })
  client = createClient(service.base_url, service.api_key)
  workspace = await client.open('browser', { template: 'browser' })
  for (const [name, content] of Object.entries(PAGES)) {
    const put = await client.tool(workspace, `/files?path=/home/user/site/${name}&create_parents=true`, {
      method: 'PUT',
      bytes: Buffer.from(content),
    })
    assert.equal(put.status, 200)
  }
  const serve =
    'import http.server as h; s = h.ThreadingHTTPServer(("127.0.0.1", 8000), h.SimpleHTTPRequestHandler); print("up", flush=True); s.serve_forever()'
  await client.tool(workspace, '/exec', { json: { session_id: 'site', argv: ['python3', '-c', serve], cwd: '/home/user/site' } })
  const response = await send(`${workspace.endpoint}/v1/workspaces/${workspace.id}/exec/site/output`, { token: workspace.token })
  for await (const event of ndjson(response)) if (event.type === 'output') break
})
after(async () => {
  await service.stop()
  await internet.close()
})

const show = (what: 'screenshot' | 'content', json: object, where = workspace) => client.tool(where, `/browser/${what}`, { json })
const text = async (page: string, more: object = {}) => {
  const answer = await show('content', { url: `${SITE}/${page}`, format: 'text', ...more })
  assert.equal(answer.status, 200, answer.bytes.toString())
  return answer.bytes.toString()
}
const browserPid = async (where = workspace) => {
  const { processes } = (await client.tool<{ processes: Process[] }>(where, '/processes')).body
  const found = processes.filter(({ ppid, command }) => ppid === 0 && command.some((word) => word === '--remote-debugging-pipe'))
  return found.map(({ pid }) => pid)
}

function readPng(bytes: Buffer): { width: number; height: number; last: number[] } {
  assert.equal(bytes.subarray(0, 8).toString('hex'), '89504e470d0a1a0a')
  const data: Buffer[] = []
  for (let at = 8; at < bytes.length; at += bytes.readUInt32BE(at) + 12)
    if (bytes.toString('latin1', at + 4, at + 8) === 'IDAT') data.push(bytes.subarray(at + 8, at + 8 + bytes.readUInt32BE(at)))
  const [width, height, channels] = [bytes.readUInt32BE(16), bytes.readUInt32BE(20), bytes[25] === 6 ? 4 : 3]
  return { width, height, last: lastPixel(inflateSync(Buffer.concat(data)), width, height, channels) }
}

/** Undoes the PNG row filters: a filtered row holds differences to the bytes above and to the left. */
function lastPixel(raw: Buffer, width: number, height: number, channels: number): number[] {
  const stride = width * channels
  let above = new Uint8Array(stride)
  for (let y = 0; y < height; y++) {
    const filter = raw[y * (stride + 1)] ?? 0
    const row = Uint8Array.from(raw.subarray(y * (stride + 1) + 1, (y + 1) * (stride + 1)))
    for (let x = 0; x < stride; x++) {
      const [a, b, c] = [row[x - channels] ?? 0, above[x] ?? 0, above[x - channels] ?? 0]
      const p = a + b - c
      const paeth =
        Math.abs(p - a) <= Math.abs(p - b) && Math.abs(p - a) <= Math.abs(p - c) ? a : Math.abs(p - b) <= Math.abs(p - c) ? b : c
      row[x] = (row[x] ?? 0) + ([0, a, b, (a + b) >> 1, paeth][filter] ?? 0)
    }
    above = row
  }
  return [...above.subarray(stride - channels, stride - channels + 3)]
}

test('a screenshot is a PNG of the viewport, by default of 1280 by 720', async () => {
  const shot = await show('screenshot', { url: `${SITE}/red.html` })
  assert.equal(shot.status, 200, shot.bytes.toString())
  assert.equal(shot.headers['content-type'], 'image/png')
  assert.deepEqual(readPng(shot.bytes), { width: 1280, height: 720, last: [255, 0, 0] })
  for (const viewport of [
    { width: 320, height: 200 },
    { width: 10, height: 10 },
    { width: 1, height: 1 },
  ]) {
    const small = await show('screenshot', { url: `${SITE}/red.html`, viewport, timeout_ms: 60_000 })
    assert.equal(small.status, 200, `${JSON.stringify(viewport)}: ${small.bytes.toString()}`)
    assert.deepEqual(readPng(small.bytes), { ...viewport, last: [255, 0, 0] })
  }
})

test('a screenshot of the full page is as high as the page', async () => {
  const shot = await show('screenshot', { url: `${SITE}/tall.html`, viewport: { width: 200, height: 100 }, full_page: true })
  assert.deepEqual(readPng(shot.bytes), { width: 200, height: 3000, last: [0, 0, 255] })
})

test('content is the page after its scripts ran, as inert HTML or text', async () => {
  const html = await show('content', { url: `${SITE}/script.html?300`, wait_ms: 2000, viewport: { width: 333, height: 100 } })
  assert.deepEqual(
    ['content-type', 'content-security-policy', 'x-content-type-options'].map((name) => html.headers[name]),
    ['text/html; charset=utf-8', 'sandbox', 'nosniff'],
  )
  assert.match(html.bytes.toString(), /^<!DOCTYPE html>\n<html><head><\/head><body><p id="p">after 333<\/p><script>/)
  const plain = await show('content', { url: `${SITE}/script.html?60000`, format: 'text' })
  assert.deepEqual([plain.bytes.toString(), plain.headers['content-type']], ['before', 'text/plain; charset=utf-8'])
})

test('every wait condition ends, and a page that navigates on is followed', async () => {
  for (const wait_until of ['load', 'domcontentloaded', 'networkidle'])
    assert.equal(await text('script.html?300', { wait_until, wait_ms: 1000 }), 'after 1280')
  const shot = await show('screenshot', { url: `${SITE}/leave.html`, wait_until: 'networkidle', viewport: { width: 64, height: 64 } })
  assert.equal(shot.status, 200, shot.bytes.toString())
  assert.deepEqual(readPng(shot.bytes).last, [255, 0, 0])
})

test('the next call on the same warm browser sees no data of an earlier page', async () => {
  const before = await browserPid()
  assert.equal(before.length, 1)
  assert.equal(await text('cookie.html'), 'had:')
  assert.equal(await text('cookie.html'), 'had:')
  assert.deepEqual(await browserPid(), before)
  const answers = await Promise.all(
    Array.from({ length: depth({ short: 4, long: 8 }) }, () => text('cookie.html', { timeout_ms: 100_000 })),
  )
  assert.deepEqual([...new Set(answers)], ['had:'])
  assert.deepEqual(await browserPid(), before)
})

test('dialogs are dismissed, and pages cannot read files of the workspace', async () => {
  assert.equal(await text('dialog.html'), 'went on: false')
  const stayed = await text('file.html', { wait_ms: 500 })
  assert.ok(stayed.startsWith('stays') && !stayed.includes('root:'), stayed)
})

test('URLs other than http and https are refused, whatever their spelling', async () => {
  const bad = [
    'file:///etc/passwd', 'FILE:///etc/passwd', 'chrome://version', 'chrome-untrusted://x', 'view-source:http://127.0.0.1:8000/', 'about:blank',
    'data:text/html,x', 'javascript:alert(1)', ' javascript:1', 'blob:http://127.0.0.1/x', 'devtools://devtools/x', 'ftp://127.0.0.1/', 'http:',
    'http://', '//127.0.0.1', '127.0.0.1:8000', '', 'http://user:secret@127.0.0.1:8000/', 'ht\ntp://127.0.0.1', 'filesystem:http://x/y',
  ] // prettier-ignore
  for (const url of bad)
    for (const what of ['screenshot', 'content'] as const)
      assert.deepEqual(refusalOf(await show(what, { url })), [422, 'validation_failed', undefined], url)
  const others: [object, ReturnType<typeof refusalOf>][] = [
    [{ viewport: { width: 4097, height: 1 } }, [422, 'validation_failed', undefined]],
    [{ viewport: { width: 0, height: 1 } }, [422, 'validation_failed', undefined]],
    [{ viewport: { width: 1 } }, [422, 'validation_failed', undefined]],
    [{ timeout_ms: 120_001 }, [422, 'validation_failed', undefined]],
    [{ wait_ms: 5000, timeout_ms: 5000 }, [422, 'validation_failed', undefined]],
    [{ wait_until: 'ever' }, [422, 'validation_failed', undefined]],
    [{ format: 'text' }, [400, 'bad_request', undefined]],
  ]
  for (const [change, expected] of others)
    assert.deepEqual(refusalOf(await show('screenshot', { url: `${SITE}/`, ...change })), expected, JSON.stringify(change))
})

test('an unreachable page, an endless page and a download are refused, and the browser keeps serving', async () => {
  const nobody = await show('content', { url: 'http://127.0.0.1:9/' })
  assert.deepEqual(
    [refusalOf(nobody), (nobody.body['error'] as { details: { error: string } }).details.error],
    [[409, 'conflict', 'navigation_failed'], 'net::ERR_UNSAFE_PORT'],
  )
  assert.deepEqual(refusalOf(await show('content', { url: 'http://127.0.0.1:8009/' })), [409, 'conflict', 'navigation_failed'])
  assert.deepEqual(refusalOf(await show('content', { url: `${SITE}/download.bin` })), [409, 'conflict', 'navigation_failed'])
  assert.deepEqual(refusalOf(await show('content', { url: `${SITE}/busy.html`, timeout_ms: 2000 })), [504, 'timeout', undefined])
  assert.equal(await text('cookie.html'), 'had:')
})

test('the browser obeys the network policy of the workspace: it reaches the internet and no private address', async () => {
  const page = await show('content', { url: `http://${INTERNET_ADDRESS}/page`, format: 'text' })
  assert.equal(page.bytes.toString(), 'Hello\nmade by a script')
  const metadata = await show('content', { url: 'http://169.254.169.254/', timeout_ms: 3000 })
  assert.match(refusalOf(metadata).join(), /^(409,conflict,navigation_failed|504,timeout,)$/)
})

test('a killed browser is replaced within the next call', async () => {
  const [pid] = await browserPid()
  await client.tool(workspace, `/processes/${pid}/signal`, { json: { signal: 'SIGKILL' } })
  assert.equal(await text('cookie.html'), 'had:')
  const [next] = await browserPid()
  assert.ok(next !== undefined && next !== pid)
  await client.tool(workspace, `/processes/${next}/signal`, { json: { signal: 'SIGSTOP' } })
  const stopped = await show('content', { url: `${SITE}/red.html`, timeout_ms: 2000 })
  assert.deepEqual(refusalOf(stopped), [504, 'timeout', undefined], stopped.bytes.toString())
  await client.tool(workspace, `/processes/${next}/signal`, { json: { signal: 'SIGCONT' } })
  assert.equal(await text('cookie.html'), 'had:')
})

test('the same browser serves after a suspend, and in a fork', async () => {
  const [pid] = await browserPid()
  assert.equal((await client.operate(`/v1/workspaces/${workspace.id}/suspend`)).state, 'succeeded')
  workspace = await client.open('browser', { template: 'browser' })
  assert.equal(await text('cookie.html'), 'had:')
  assert.deepEqual(await browserPid(), [pid])
  const forked = await client.operate(`/v1/workspaces/${workspace.id}/fork`, { json: { key: 'browser-fork' } })
  assert.equal(forked.state, 'succeeded')
  const fork = await client.open('browser-fork', { template: 'browser' })
  const shot = await show('screenshot', { url: `${SITE}/red.html` }, fork)
  assert.deepEqual(readPng(shot.bytes), { width: 1280, height: 720, last: [255, 0, 0] })
  assert.deepEqual(await browserPid(fork), [pid])
})

test('a template without a browser answers guest_feature_unavailable', async () => {
  const base = await client.open('base')
  const { status, body } = await show('screenshot', { url: 'http://127.0.0.1:8000/' }, base)
  assert.deepEqual(
    [status, (body['error'] as { details: object }).details],
    [409, { reason: 'guest_feature_unavailable', feature: 'browser' }],
  )
})

test('a template that is published while the service runs is published once', async () => {
  const script = path.join(import.meta.dirname, '../../tools/setup/late-templates.mjs')
  const { stdout } = await promisify(execFile)(process.execPath, [script, '["browser"]', '--data-dir', service.data_dir], {
    env: cleanEnvironment(),
    timeout: patience(300_000),
  })
  assert.match(stdout, /^browser version 1$/m)
})
