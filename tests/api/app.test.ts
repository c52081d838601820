import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { CompiledQuery } from 'kysely'
import { LIMITS } from '../../contract/limits.ts'
import { startApi } from '../../service/api/app.ts'
import { freshDatabase } from '../support/postgres.ts'
import { freePorts } from '../support/service.ts'
import { world } from './support.ts'

test('the process serves, reports that it is ready, and counts its answers', async () => {
  await using database = await freshDatabase()
  const signing_keys_dir = mkdtempSync(join(tmpdir(), 'berth-app-'))
  const [port = 0, ops_port = 0] = await freePorts(2)
  const service = await startApi({
    listen: { host: '127.0.0.1', port },
    ops_listen: { host: '127.0.0.1', port: ops_port },
    base_url: `http://127.0.0.1:${port}`,
    ports_url: 'https://ports.test',
    database: database.options('berth_api'),
    signing_keys_dir,
    edge_requests_per_minute: 0,
    caller_requests_per_minute: LIMITS.caller.requests_per_minute,
    wrong_credentials_per_minute: LIMITS.caller.wrong_credentials_per_minute,
    layered_opens: true,
    file_first: false,
    uploads_dir: '',
    package_mirror: '',
    registration: 'invitation',
    stripe: null,
    mail: { smtp_url: '', from: 'berth@localhost', directory: signing_keys_dir },
    log_level: 'error',
  })
  try {
    const ops = (path: string) => fetch(`http://127.0.0.1:${ops_port}${path}`)
    assert.equal((await ops('/healthz')).status, 200)
    assert.equal((await ops('/readyz')).status, 200)
    assert.equal((await ops('/nope')).status, 404)
    const versions = await fetch(`http://127.0.0.1:${port}/v1/client-versions`)
    assert.deepEqual([versions.status, versions.headers.get('cache-control')], [200, 'public, max-age=3600'])
    const described = (await (await fetch(`http://127.0.0.1:${port}/v1/openapi.json`)).json()) as { openapi: string; servers: unknown }
    assert.deepEqual([described.openapi, described.servers], ['3.1.0', [{ url: `http://127.0.0.1:${port}` }]])
    assert.match(
      await (await ops('/metrics')).text(),
      /berth_http_request_seconds_count\{route="client-versions.get",method="GET",status="200"\} 1/,
    )
    assert.equal(
      execFileSync('stat', [
        '-c',
        '%a',
        join(signing_keys_dir, 'tool-token-key.json'),
        join(signing_keys_dir, 'cursor.00000000.key'),
        join(signing_keys_dir, 'idempotency.00000000.key'),
      ]).toString(),
      '600\n600\n600\n',
    )
  } finally {
    await service.close()
    rmSync(signing_keys_dir, { recursive: true, force: true })
  }
})

test('a cut database connection is 503 or unnoticed, and the next call is served', async () => {
  await using w = await world()
  const id = await w.running('cut')
  for (let n = 0; n < 3; n++) {
    // Waits for each end: a connection that was only signalled would be cut during a later call.
    const others = `select pg_terminate_backend(pid, 60000) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`
    await w.database.superuser.executeQuery(CompiledQuery.raw(others))
    const { status } = await w.get(`/v1/workspaces/${id}`)
    assert.ok(status === 200 || status === 503, String(status))
  }
  assert.equal((await w.get(`/v1/workspaces/${id}`)).status, 200)
})
