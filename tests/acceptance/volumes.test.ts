// An installation of its own: its machines are saved, its processes are killed, and its volumes are looked at from outside.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Client, createClient, type OpenedWorkspace, refusalOf } from '../support/client.ts'
import { startService, type Service } from '../support/service.ts'

interface Volume {
  id: string
  state: string
  attachments: { workspace_id: string; mount_path: string; mode: string; state: string }[]
}

let service: Service
let client: Client
let project: string

before(async () => {
  service = await startService()
  client = createClient(service.base_url, service.api_key)
  project = (await client.api<{ api_key: { project_id: string } }>('/v1/me')).body.api_key.project_id
})
after(async () => {
  await service.stop()
})

const small = { caps: { memory_mib: 512 } }
const at = '/home/user/data'
const volumes = (id = '') => `/v1/projects/${project}/volumes${id === '' ? '' : `/${id}`}`
const read = async (id: string) => (await client.api<Volume>(volumes(id))).body

async function made(name: string, quota_gib = 1): Promise<string> {
  const operation = await client.operate(volumes(), { json: { name, quota_gib } })
  assert.equal(operation.state, 'succeeded', JSON.stringify(operation))
  return operation.result?.['volume_id'] as string
}

function attach(workspace: OpenedWorkspace, volume_id: string, more: object = {}) {
  return client.operate(`/v1/workspaces/${workspace.id}/volumes`, { json: { volume_id, mount_path: at, ...more } })
}

const detach = (workspace: OpenedWorkspace, volume_id: string) =>
  client.operate(`/v1/workspaces/${workspace.id}/volumes/${volume_id}`, { method: 'DELETE' })

async function sh(workspace: OpenedWorkspace, script: string, body: object = {}): Promise<string> {
  const { stdout, stderr, exit } = await client.run(workspace, ['sh', '-c', script], { ...body })
  return `${stdout}${stderr}${exit.exit_code === 0 ? '' : `exit ${exit.exit_code}`}`
}

test('two running workspaces have the same files at once, by a command, the files API and a rename', async () => {
  const volume_id = await made('shared')
  const one = await client.open('one', small)
  const two = await client.open('two', small)
  assert.deepEqual((await attach(one, volume_id)).result, { volume_id, mount_path: at })
  assert.equal((await attach(two, volume_id, { mount_path: '/srv/set/of/data' })).state, 'succeeded')
  assert.equal(await sh(one, `echo first > ${at}/file && cat ${at}/file`), 'first\n')
  assert.equal(await sh(two, 'cat /srv/set/of/data/file && echo second >> /srv/set/of/data/file && ls /srv/set/of/data'), 'first\nfile\n')
  assert.equal(await sh(one, `cat ${at}/file && mv ${at}/file ${at}/moved`), 'first\nsecond\n')
  assert.equal(await sh(two, 'ls /srv/set/of/data'), 'moved\n')
  const written = await client.tool(one, `/files?path=${at}/api`, { method: 'PUT', bytes: Buffer.from('by the API') })
  assert.equal(written.status, 200, JSON.stringify(written.body))
  const answer = await client.tool(two, '/files?path=/srv/set/of/data/api')
  assert.equal(answer.bytes.toString(), 'by the API')
  const { attachments } = await read(volume_id)
  assert.deepEqual(
    attachments.map(({ workspace_id, mount_path, mode, state }) => [workspace_id, mount_path, mode, state]),
    [
      [one.id, at, 'read_write', 'attached'],
      [two.id, '/srv/set/of/data', 'read_write', 'attached'],
    ],
  )
  assert.deepEqual(refusalOf(await client.api(volumes(volume_id), { method: 'DELETE' })), [409, 'conflict', 'volume_attached'])
  for (const workspace of [one, two]) assert.equal((await detach(workspace, volume_id)).state, 'succeeded')
  assert.equal(await sh(one, `ls -A ${at}`), '', 'the place is empty, and the disk of the workspace has nothing of it')
  const gone = await client.operate(volumes(volume_id), { method: 'DELETE' })
  assert.equal(gone.state, 'succeeded')
  assert.equal((await read(volume_id)).state, 'deleted')
})
