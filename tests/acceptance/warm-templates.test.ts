import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import type { TemplateVersion } from '../../contract/schemas/templates.ts'
import { createClient, type Client, type OpenedWorkspace } from '../support/client.ts'
import { until } from '../support/processes.ts'
import { type SharedService, sharedService } from '../support/shared-services.ts'

const SMALL = { cpu_millis: 1000, memory_mib: 512, disk_gib: 2 }
const SETTINGS = {
  env: {},
  inputs: { GREETING: { default: 'hello' }, LATER: { startup: false } },
  defaults: SMALL,
  ceiling: SMALL,
  start: [{ name: 'keys', user: 'root', argv: ['sh', '-c', 'mkdir -p /etc/ssh && echo key > /etc/ssh/ssh_host_test_key'] }],
  services: [
    {
      name: 'slow',
      argv: ['sh', '-c', 'sleep 5; echo "$GREETING $$" > /home/user/began; exec sleep 100000'],
      ready: { argv: ['test', '-s', '/home/user/began'] },
    },
  ],
  warm: true,
}

let service: SharedService
let client: Client
before(async () => {
  service = await sharedService()
  client = createClient(service.base_url, service.api_key)
  await publish('warm', SETTINGS)
})
after(() => service.stop())

async function publish(slug: string, settings: object): Promise<void> {
  const folder = mkdtempSync(path.join(tmpdir(), 'berth-warm-'))
  const file = path.join(folder, 'settings.json')
  writeFileSync(file, JSON.stringify(settings))
  await service.admin('template', 'publish', '--slug', slug, '--organization', service.organization, '--settings', file)
  rmSync(folder, { recursive: true })
}

const shell = async (at: OpenedWorkspace, script: string) => (await client.run(at, ['sh', '-c', script])).stdout.trim()
const warmOf = async (slug: string) => (await client.api<TemplateVersion>(`/v1/templates/${slug}/versions/1`)).body.warm
const isReady = (slug: string) => until('a machine is warm', 120_000, async () => (await warmOf(slug))?.state === 'ready')
const captures = () =>
  service.query<{
    id: string
    checkpoint_id: string | null
  }>(`select c.id, c.checkpoint_id from template_captures c join template_versions v on v.id = c.version_id
    join templates t on t.id = v.template_id join organizations o on o.id = t.organization_id
    where o.slug = '${service.organization}' and t.slug = 'warm'`)

async function opened(key: string, body: object = {}) {
  const began_ms = performance.now()
  const workspace = await client.open(key, { template: 'warm', ...body })
  const took_ms = performance.now() - began_ms
  const { body: operation } = await client.api<{ result: { warm?: boolean } }>(`/v1/operations/${workspace.operation_id}`)
  return { workspace, took_ms, warm: operation.result.warm === true }
}

const IDENTITY =
  'hostname; cat /etc/hostname /etc/machine-id /proc/sys/kernel/random/boot_id; head -c 16 /dev/urandom | od -An -tx1; ls /etc/ssh | grep ssh_host_'

test('later opens restore a machine after its start-up: the same processes, each machine with its own identity', async () => {
  assert.deepEqual(await warmOf('warm'), { state: 'none', error: null })
  const cold = await opened('cold')
  assert.deepEqual([cold.warm, cold.took_ms > 5000], [false, true])
  await isReady('warm')
  const [capture] = await captures()
  const first = await opened('first', { inputs: { LATER: 'given' } })
  const second = await opened('second')
  assert.deepEqual([first.warm, second.warm], [true, true])
  assert.ok(second.took_ms < 2500, `a warm open took ${second.took_ms} ms`)
  const look = async ({ workspace }: typeof first) => ({
    began: await shell(workspace, 'cat /home/user/began'),
    runs: await shell(workspace, 'set -- $(cat /home/user/began); cat /proc/$2/comm; echo "$GREETING $LATER"'),
    session: (await client.tool<{ state: string; started_at: string }>(workspace, `/exec/sfstart.slow.${capture?.id}`)).body,
    identity: (await shell(workspace, IDENTITY)).split('\n'),
  })
  const [one, two] = [await look(first), await look(second)]
  assert.deepEqual([one.began, one.session.started_at, one.session.state], [two.began, two.session.started_at, 'running'])
  assert.deepEqual([one.runs, two.runs], ['sleep\nhello given', 'sleep\nhello'])
  assert.deepEqual([one.identity.length, two.identity.length], [5, 5], 'no ssh host key is shared')
  for (const [at, line] of one.identity.entries()) assert.notEqual(line, two.identity[at])
  const { body } = await client.api<{ startup: object; ready: boolean }>(`/v1/workspaces/${second.workspace.id}`)
  assert.deepEqual([body.startup, body.ready], [{ state: 'ready' }, true])
})

test('a restored workspace suspends and resumes, and its reset starts from the files of the version', async () => {
  await isReady('warm')
  const { workspace, warm } = await opened('lives')
  assert.equal(warm, true)
  const began = await shell(workspace, 'cat /home/user/began')
  assert.equal((await client.operate(`/v1/workspaces/${workspace.id}/suspend`)).state, 'succeeded')
  const again = await client.open('lives', { template: 'warm' })
  assert.equal(await shell(again, 'cat /home/user/began; set -- $(cat /home/user/began); cat /proc/$2/comm'), `${began}\nsleep`)
  await shell(again, 'touch /home/user/mine')
  const reset = await client.operate(`/v1/workspaces/${workspace.id}/reset`, { json: { confirm_destructive: true } })
  assert.equal(reset.state, 'succeeded')
  const after_reset = await client.open('lives', { template: 'warm' })
  assert.match(await shell(after_reset, 'ls /home/user; cat /home/user/began'), /^began\nhello \d+$/)
})

test('an input of the start-up, a capture of another engine and a missing capture lead to a cold start', async () => {
  await isReady('warm')
  const other = await opened('other-input', { inputs: { GREETING: 'good day' } })
  assert.deepEqual([other.warm, (await shell(other.workspace, 'cat /home/user/began')).startsWith('good day')], [false, true])
  const [{ id, checkpoint_id } = { id: '', checkpoint_id: null }] = await captures()
  await service.query(`update template_captures set engine = 'another' where id = '${id}'`)
  assert.equal((await opened('other-engine')).warm, false)
  await until('it is made anew', 120_000, async () => ![null, checkpoint_id].includes((await captures())[0]?.checkpoint_id ?? null))
  assert.equal((await opened('made-anew')).warm, true)
  await service.query(`update template_captures set checkpoint_id = '${id}' where id = '${id}'`)
  assert.equal((await opened('not-there')).warm, false)
})

test('a start-up that fails in the making of the warm image leaves its version cold with the reason', async () => {
  const start = [{ name: 'fetch', argv: ['sh', '-c', 'case $(hostname) in warm-*) echo no network >&2; exit 7;; esac'] }]
  await publish('fails-ahead', { ...SETTINGS, start, services: [] })
  await client.open('fails-ahead', { template: 'fails-ahead' })
  await until('it has failed', 120_000, async () => (await warmOf('fails-ahead'))?.state === 'failed')
  const error = { step: 'fetch', reason: 'startup_failed', exit_code: 7, output_tail: 'no network\n' }
  assert.deepEqual(await warmOf('fails-ahead'), { state: 'failed', error })
})
