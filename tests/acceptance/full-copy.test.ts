import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { type Client, createClient, type OpenedWorkspace, refusalOf } from '../support/client.ts'
import { until } from '../support/processes.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'

let service: SharedService
let client: Client
let copied: OpenedWorkspace

const folder = mkdtempSync(join(tmpdir(), 'berth-full-copy-'))
const small = { caps: { memory_mib: 512 } }

before(async () => {
  service = await sharedService()
  client = createClient(service.base_url, service.api_key)
  const versions = JSON.parse(await service.admin('template', 'list', '--json')) as { slug: string; settings: unknown }[]
  const file = join(folder, 'settings.json')
  writeFileSync(file, JSON.stringify(versions.find(({ slug }) => slug === 'base')?.settings))
  await service.admin('template', 'publish', '--slug', 'copied', '--layers-from', 'base', '--settings', file, '--layered', 'false')
  copied = await client.open('copied', { ...small, template: 'copied' })
})
after(async () => {
  rmSync(folder, { recursive: true, force: true })
  await service.stop()
})

async function shell(workspace: OpenedWorkspace, script: string): Promise<string> {
  const now = { ...workspace, token: await client.token(workspace.id) }
  const { stdout, stderr, exit } = await client.run(now, ['bash', '-c', script], { user: 'root' })
  assert.equal(exit.exit_code, 0, `${script}: ${stderr}`)
  return stdout.trim()
}

test('a full copy has all files of the template with their owners, modes, times, links and capabilities', async () => {
  const view = await client.api<{ disk_layout: string }>(`/v1/workspaces/${copied.id}`)
  assert.equal(view.body.disk_layout, 'legacy')
  const layered = await client.open('layered', small)
  // The list skips files that the service writes to /etc for each workspace, and mounts, which are not on the disk.
  const list = `cd / && { find bin etc/alternatives home lib opt root sbin srv usr var -xdev -type f -printf '%p %m %U:%G %s %n %T@\\n';
    find bin home lib opt root sbin srv usr var -xdev ! -type f -printf '%p %y %m %U:%G %l\\n'; getfattr -R -d -m security usr/bin 2>/dev/null || true; } | sort`
  const [of_copy, of_layers] = [await shell(copied, list), await shell(layered, list)]
  assert.ok(of_copy.split('\n').length > 5000, 'the template has files')
  assert.ok(of_copy === of_layers, firstDifference(of_copy, of_layers))
  assert.equal(await shell(copied, 'node --version && python3 --version && git --version | cut -c1-4'), await shell(layered, 'node --version && python3 --version && git --version | cut -c1-4')) // prettier-ignore
  await client.operate(`/v1/workspaces/${layered.id}`, { method: 'DELETE' })
})

function firstDifference(a: string, b: string): string {
  const others = new Set(b.split('\n'))
  return a.split('\n').find((line) => !others.has(line)) ?? 'lines are missing'
}

test('a full copy suspends, resumes, forks and survives the death of its machine', async () => {
  await shell(copied, 'rm /usr/bin/git; echo memory > /dev/shm/canary; echo disk > /home/user/kept')
  assert.equal((await client.operate(`/v1/workspaces/${copied.id}/suspend`)).state, 'succeeded')
  assert.equal((await client.operate(`/v1/workspaces/${copied.id}/resume`)).state, 'succeeded')
  const state = 'cat /dev/shm/canary /home/user/kept; test -e /usr/bin/git || echo gone'
  assert.equal(await shell(copied, state), 'memory\ndisk\ngone')
  assert.equal((await client.operate(`/v1/workspaces/${copied.id}/fork`, { json: { key: 'copied-child' } })).state, 'succeeded')
  const child = await client.open('copied-child')
  assert.equal(await shell(child, state), 'memory\ndisk\ngone')
  const child_view = await client.api<{ disk_layout: string }>(`/v1/workspaces/${child.id}`)
  assert.equal(child_view.body.disk_layout, 'legacy')
  await client.operate(`/v1/workspaces/${child.id}`, { method: 'DELETE' })
  await service.kill_machine(copied.id)
  const observed = async () => (await client.api<{ observed_state: string }>(`/v1/workspaces/${copied.id}`)).body.observed_state
  await until('the death is seen', 60_000, async () => (await observed()) === 'failed')
  const again = await client.open('copied')
  assert.equal(await shell(again, 'cat /home/user/kept; test -e /usr/bin/git || echo gone'), 'disk\ngone')
})

test('reset and changes are refused, because they need the template next to the disk', async () => {
  const refused = [409, 'conflict', 'legacy_disk_layout']
  const reset = await client.api(`/v1/workspaces/${copied.id}/reset`, { json: { confirm_destructive: true } })
  assert.deepEqual(refusalOf(reset), refused)
  const now = { ...copied, token: await client.token(copied.id) }
  assert.deepEqual(refusalOf(await client.tool(now, '/changes')), refused)
})
