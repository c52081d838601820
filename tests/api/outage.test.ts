import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { SHARED_SERVER_VARIABLE, startTestServer } from '../support/postgres.ts'
import { world } from './support.ts'

// A server of this file's own, since the others' must not stop.
const server = await startTestServer()
process.env[SHARED_SERVER_VARIABLE] = server.socket_dir

test('a database that is stopped is 503 within two seconds or so, and serves again when it goes on', async () => {
  await using w = await world()
  const id = await w.running('outage')
  const signal = (name: NodeJS.Signals) => {
    for (const pid of serverPids()) process.kill(pid, name)
  }
  signal('SIGSTOP')
  try {
    for (const call of [
      () => w.get(`/v1/workspaces/${id}`),
      () => w.post(`/v1/workspaces/${id}/suspend`),
      () => w.get('/v1/organizations'),
    ]) {
      const started_ms = performance.now()
      const answer = await call()
      assert.deepEqual([answer.status, answer.body.error.code, answer.body.error.retryable], [503, 'dependency_unavailable', true])
      assert.ok(performance.now() - started_ms < 2500, `${performance.now() - started_ms} ms`)
    }
    assert.equal((await w.get('/v1/client-versions')).status, 200)
  } finally {
    signal('SIGCONT')
  }
  for (let tries = 0; tries < 100 && (await w.get(`/v1/workspaces/${id}`)).status !== 200; tries++)
    await new Promise((resolve) => setTimeout(resolve, 50))
  assert.equal((await w.get(`/v1/workspaces/${id}`)).body.observed_state, 'running')
})

/** The postmaster and its children. */
function serverPids(): number[] {
  const [postmaster = ''] = readFileSync(join(server.socket_dir, '..', 'data', 'postmaster.pid'), 'utf8').split('\n')
  const children = execFileSync('pgrep', ['-P', postmaster], { encoding: 'utf8' }).split('\n')
  return [postmaster, ...children].filter((pid) => pid !== '').map(Number)
}
