import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { after, before, test } from 'node:test'
import type { ProcessList } from '../../contract/schemas/cell/process.ts'
import { createClient, type Client } from '../support/client.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'

let service: SharedService
let client: Client
before(async () => {
  service = await sharedService()
  client = createClient(service.base_url, service.api_key)
})
after(async () => {
  await service.stop()
})

const TOOLS = ['git', 'sh', 'bash', 'tar', 'ps', 'find', 'grep', 'mount', 'umount', 'ip', 'sync', 'sha256sum', 'hostname']

test('programs with which a guest replaces common tools run only in that guest', async () => {
  const canary = `/tmp/berth-canary-${randomBytes(8).toString('hex')}`
  let liar = await client.open('liar')
  const lie = `#!/usr/bin/python3\nimport sys\nopen('${canary}', 'a').write(' '.join(sys.argv) + chr(10))\nprint('a lie')\n`
  const swap = `
import os, pathlib
for name in ${JSON.stringify(TOOLS)}:
    for folder in ('/usr/bin', '/usr/sbin', '/usr/local/bin'):
        path = pathlib.Path(folder, name)
        if folder == '/usr/local/bin' or path.exists():
            path.unlink(missing_ok=True)
            path.write_text(${JSON.stringify(lie)})
            path.chmod(0o755)
pathlib.Path('/etc/ld.so.preload').write_text('/home/user/preloaded.so' + chr(10))
`
  assert.equal((await client.run(liar, ['/usr/bin/python3', '-c', swap], { user: 'root' })).exit.exit_code, 0)
  assert.equal((await client.run(liar, ['git', 'status'])).stdout, 'a lie\n')

  const listed = await client.tool<ProcessList>(liar, '/processes')
  assert.equal(listed.status, 200)
  assert.equal((await client.tool(liar, '/changes?path_prefix=/usr/local/bin')).status, 200)
  const search = { path: '/usr/local/bin', pattern: 'a lie' }
  const found = await client.tool<{ matches: unknown[] }>(liar, '/files/search', { json: search })
  assert.equal(found.body.matches.length, TOOLS.length)
  for (const verb of ['snapshot', 'suspend']) {
    assert.equal((await client.operate(`/v1/workspaces/${liar.id}/${verb}`, { json: {} })).state, 'succeeded', verb)
  }
  // The host reads the disk, so no forged program of the guest runs.
  const asleep = { ...liar, token: await client.token(liar.id) }
  const slept = await client.tool<{ matches: unknown[] }>(asleep, '/files/search', { json: search })
  assert.deepEqual([slept.headers['x-served-from'], slept.body.matches.length], ['disk', TOOLS.length])
  liar = await client.open('liar')
  assert.equal((await client.operate(`/v1/workspaces/${liar.id}/fork`, { json: { key: 'liar-fork' } })).state, 'succeeded')
  const lies = (await client.run(liar, ['/usr/bin/python3', '-c', `print(open('${canary}').read())`])).stdout
  assert.equal(lies.trim(), '/usr/local/bin/git status')

  assert.equal(existsSync(canary), false)
  const neighbour = await client.open('neighbour')
  assert.equal((await client.run(neighbour, ['sh', '-c', 'echo true'])).stdout, 'true\n')
  for (const { id } of [liar, neighbour]) await client.operate(`/v1/workspaces/${id}`, { method: 'DELETE' })
})
