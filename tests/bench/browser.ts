import assert from 'node:assert/strict'
import { createClient } from '../support/client.ts'
import type { Service } from '../support/service.ts'
import { measure, timed } from './harness.ts'

const PAGE = '<!doctype html><title>Small</title><h1>A small page</h1><p>Of two lines.</p>'
const FOLDER = '/home/user/site'
const SERVER = `import http.server as h; h.ThreadingHTTPServer(("127.0.0.1", 8000), h.SimpleHTTPRequestHandler).serve_forever()`

/** Berth sets this limit, because the performance table has no such row. */
export async function screenshotRow(service: Service): Promise<void> {
  const client = createClient(service.base_url, service.api_key)
  const workspace = await client.open('bench-screenshot', { template: 'browser' })
  await client.tool(workspace, `/files?path=${FOLDER}/index.html&create_parents=true`, { method: 'PUT', bytes: Buffer.from(PAGE) })
  await client.tool(workspace, '/exec', { json: { session_id: 'site', argv: ['python3', '-c', SERVER], cwd: FOLDER } })
  const url = 'http://127.0.0.1:8000/'
  const argv = ['chromium', '--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--window-size=1280,720']
  await measure(
    { row: 0, name: 'screenshot', title: 'screenshot of a small local page, warm browser', bar: { at_most: 0.25 } },
    {
      reference: () =>
        timed(async () => {
          const { exit, stderr } = await client.run(workspace, [...argv, '--screenshot=/tmp/shot.png', url], { cwd: '/tmp' })
          assert.equal(exit.exit_code, 0, stderr)
        }),
      subject: () =>
        timed(async () => {
          const { status, bytes } = await client.tool(workspace, '/browser/screenshot', { json: { url } })
          assert.equal(status, 200, bytes.toString())
        }),
    },
    { samples_max: 10 },
  )
  await client.operate(`/v1/workspaces/${workspace.id}`, { method: 'DELETE' })
}
