import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { OBSERVED_VARIABLE } from './exchange.ts'
import { observedLines } from './observations.ts'
import { patience } from '../support/patience.ts'

const ID = '018f0000-0000-7000-8000-000000000001'
const json = 'application/json; charset=utf-8'
const envelope = (code: string, reason?: string) => JSON.stringify({ error: { code, ...(reason ? { details: { reason } } : {}) } })
const seen = (method: string, path: string, status: number, content_type: string, text: string) =>
  observedLines({ method, path, status, content_type, text })

test('an answer is the line of its route, its status, its code and its reason', () => {
  assert.deepEqual(seen('GET', `/v1/workspaces/${ID}?x=1`, 200, json, ''), ['workspaces.get 200'])
  assert.deepEqual(seen('POST', '/v1/workspaces/open', 409, json, envelope('conflict', 'mode_mismatch')), [
    'workspaces.open 409 conflict/mode_mismatch',
  ])
  assert.deepEqual(seen('GET', `/v1/workspaces/${ID}/idle`, 401, json, envelope('unauthenticated')), ['cell.idle.get 401 unauthenticated'])
})

test('an answer of an unknown route is no line, and one without an envelope has no code', () => {
  assert.deepEqual(seen('GET', '/metrics', 200, 'text/plain', ''), [])
  assert.deepEqual(seen('PATCH', `/v1/workspaces/${ID}`, 404, json, envelope('not_found')), [])
  assert.deepEqual(seen('GET', '/v1/me', 502, 'text/html', '<html>'), ['principals.me 502'])
})

test('a refusal at the end of a stream, or before a WebSocket closes, is a line in addition to its 200 or 101', () => {
  const path = `/v1/workspaces/${ID}/exec/s/output`
  const error = `{"type":"error","error":{"code":"conflict","details":{"reason":"output_expired"}}}`
  const lines = ['cell.exec.output 200', 'cell.exec.output 409 conflict/output_expired']
  assert.deepEqual(seen('GET', path, 200, 'application/x-ndjson', `{"type":"heartbeat"}\n${error}\n`), lines)
  assert.deepEqual(seen('GET', path, 200, 'text/event-stream', `data: ${error}\n\n`), lines)
  assert.deepEqual(seen('GET', path, 101, 'websocket', error), ['cell.exec.output 101', 'cell.exec.output 4409 conflict/output_expired'])
})

test('answers to fetch and http.request are noted, whether or not the body is read as it arrives', () => {
  const folder = mkdtempSync(join(tmpdir(), 'berth-observed-'))
  try {
    const program = `
      import http from 'node:http'
      const server = http.createServer((request, response) => {
        response.writeHead(409, { 'content-type': 'application/json' })
        response.end('{"error":{"code":"conflict","details":{"reason":"' + (request.headers['x-reason'] ?? '') + '"}}}')
      }).listen(0, '127.0.0.1', async () => {
        const url = 'http://127.0.0.1:' + server.address().port + '/v1/workspaces/${ID}/suspend'
        const answer = await fetch(url, { method: 'POST', headers: { 'x-reason': 'by_fetch' } })
        await answer.text()
        http.request(url, { method: 'POST', headers: { 'x-reason': 'by_request' } }, async (response) => {
          await new Promise(setImmediate)
          for await (const chunk of response) void chunk
          server.close()
        }).end()
      })`
    const hook = join(import.meta.dirname, '../support/observe.ts')
    const { status, stderr } = spawnSync(process.execPath, ['--import', hook, '--input-type=module', '--eval', program], {
      env: { ...process.env, [OBSERVED_VARIABLE]: folder },
      encoding: 'utf8',
      timeout: patience(120_000),
    })
    assert.equal(status, 0, stderr)
    const lines = readdirSync(folder).flatMap((file) => readFileSync(join(folder, file), 'utf8').trim().split('\n'))
    assert.deepEqual(lines, ['workspaces.suspend 409 conflict/by_fetch', 'workspaces.suspend 409 conflict/by_request'])
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
