import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import { createClient, type Client, type OpenedWorkspace } from '../support/client.ts'
import { until } from '../support/processes.ts'
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

const PATIENCE_MS = 180_000
const small = { caps: { memory_mib: 512, disk_gib: 1 } }
const at = (id: string, rest: string) => `/v1/workspaces/${id}/${rest}`
const stateOf = async (id: string) => (await client.api<{ observed_state: string }>(`/v1/workspaces/${id}`)).body.observed_state
const manifestOf = (id: string, checkpoint_id: string) => service.pool_file(id, `checkpoints/${checkpoint_id}/manifest.json`)

async function operated(id: string, verb: string, json?: object): Promise<Record<string, string>> {
  const { state, error, result } = await client.operate(at(id, verb), json === undefined ? {} : { json })
  assert.deepEqual([state, error], ['succeeded', null], verb)
  return (result ?? {}) as Record<string, string>
}

async function shell(workspace: OpenedWorkspace, script: string): Promise<{ code: number | null; text: string }> {
  const { stdout, exit } = await client.run({ ...workspace, token: await client.token(workspace.id) }, ['bash', '-c', script])
  return { code: exit.exit_code, text: stdout.trim() }
}

/** Writes the manifest that a processor with other features would have produced, sealed with this host's key. */
async function reseal(id: string, checkpoint_id: string, change: (features: string[]) => string[]): Promise<void> {
  const file = manifestOf(id, checkpoint_id)
  const text = (JSON.parse((await file.read()).toString()) as { manifest: unknown }).manifest
  const manifest = { ...(text as { processor: string[] }) }
  manifest.processor = change(manifest.processor)
  const changed = JSON.stringify(manifest)
  const key = readFileSync(path.join(service.data_dir, 'keys', 'host.key'))
  const seal = createHmac('sha256', key).update('manifest|').update(changed).digest('hex')
  await file.write(Buffer.from(`{"manifest":${changed},"seal":"${seal}"}`))
}

test('memory of a processor with more features is refused with a hint, the disk starts without it, and the memory is kept', async () => {
  const workspace = await client.open('stranded', small)
  const { id } = workspace
  await client.tool(workspace, '/exec', { json: { session_id: 'sleeper', argv: ['sleep', '100000'] } })
  await shell(workspace, 'echo kept > f; sync f')
  const { checkpoint_id = '' } = await operated(id, 'suspend')
  await reseal(id, checkpoint_id, (features) => [...features, 'OF_ANOTHER_PROCESSOR'])

  const { state, error } = await client.operate(at(id, 'resume'))
  const missing_features = ['OF_ANOTHER_PROCESSOR']
  const details = { reason: 'processor', workspace_id: id, checkpoint_id, without_memory: true, missing_features }
  assert.deepEqual([state, error?.code, error?.details], ['failed', 'checkpoint_incompatible', details])
  assert.match(error?.message ?? '', /by a restore with memory: false$/)
  assert.equal(await stateOf(id), 'suspended')

  const { recovery_checkpoint_id } = await operated(id, 'restore', { checkpoint_id, memory: false })
  assert.deepEqual([recovery_checkpoint_id, await stateOf(id)], [checkpoint_id, 'suspended'])
  const { body } = await client.api<{ data: { id: string; kind: string; memory: boolean }[] }>(at(id, 'checkpoints'))
  assert.deepEqual(
    body.data.map(({ kind, memory }) => [kind, memory]),
    [
      ['suspend', false],
      ['recovery', true],
    ],
  )
  await operated(id, 'resume')
  assert.equal((await shell(workspace, 'cat f')).text, 'kept')
  const now = { ...workspace, token: await client.token(id) }
  assert.equal((await client.tool<{ state: string }>(now, '/exec/sleeper')).body.state, 'lost')

  await reseal(id, checkpoint_id, (features) => features.filter((one) => one !== 'OF_ANOTHER_PROCESSOR'))
  await operated(id, 'restore', { checkpoint_id })
  const again = { ...workspace, token: await client.token(id) }
  assert.equal((await client.tool<{ state: string }>(again, '/exec/sleeper')).body.state, 'running')
})

test('deleted snapshots release their space to the disk that they were taken of', async () => {
  const workspace = await client.open('full-of-snapshots', small)
  const { id } = workspace
  const writeOnce = async () => (await shell(workspace, 'rm -f big; dd if=/dev/zero of=big bs=1M count=600 status=none && sync big')).code
  // A deleted file's space that a snapshot keeps is released within seconds (decision 60).
  const write = async () => {
    for (let left = 3; left > 0; left -= 1) {
      if ((await writeOnce()) === 0) return 0
      await wait(2000)
    }
    return 1
  }
  // Checkpoints' data is limited to one more disk size (decision 60).
  const snapshots: string[] = []
  while ((await write()) === 0) {
    assert.ok(snapshots.length < 4, 'four snapshots of 600 MiB beside a disk of 1 GiB')
    snapshots.push((await operated(id, 'snapshot')).checkpoint_id ?? '')
  }
  assert.ok(snapshots.length > 1)
  const remove = (checkpoint_id: string) => client.api(at(id, `checkpoints/${checkpoint_id}`), { method: 'DELETE' })
  for (const checkpoint_id of snapshots) {
    assert.equal((await remove(checkpoint_id)).status, 204)
    await until('its files are gone', PATIENCE_MS, () =>
      manifestOf(id, checkpoint_id).read().then(
        () => false,
        () => true,
      ),
    ) // prettier-ignore
    assert.equal((await remove(checkpoint_id)).status, 204)
  }
  await until('there is room again', PATIENCE_MS, async () => (await write()) === 0)
})
