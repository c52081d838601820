import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { createClient, type Client, type OpenedWorkspace } from '../support/client.ts'
import { until } from '../support/processes.ts'
import { printedBy, readGuide } from '../support/readme.ts'
import { type SharedService, sharedService } from '../support/shared-services.ts'
import { builds, type Builds } from '../support/template-builds.ts'
import { patience } from '../support/patience.ts'

let service: SharedService
let client: Client
let of: Builds
before(async () => {
  service = await sharedService()
  client = createClient(service.base_url, service.api_key)
  of = builds(client)
})
after(() => service.stop())

const shell = async (at: OpenedWorkspace, script: string) => (await client.run(at, ['sh', '-c', script])).stdout.trim()
const log = (id: string) => of.log(id)

function uploaded(files: Record<string, string>): Promise<string> {
  const folder = mkdtempSync(path.join(tmpdir(), 'berth-context-'))
  for (const [name, text] of Object.entries(files)) writeFileSync(path.join(folder, name), text)
  const bytes = execFileSync('tar', ['-cz', '-C', folder, '.'])
  rmSync(folder, { recursive: true })
  return of.uploaded(bytes)
}

test('a recipe with an uploaded file and two steps is built, published and opened, and its log names each step', async () => {
  const upload_id = await uploaded({ greeting: 'hello\n' })
  const steps = [
    { copy: ['greeting'], to: '/srv/app/' },
    { run: 'echo from a step >> /srv/app/greeting; echo said aloud' },
    { run: ['sh', '-c', 'id -un > where; pwd >> where'], cwd: '/srv/app' },
  ]
  const recipe = { base: 'base', env: { GREETING: '/srv/app/greeting' }, egress: { mode: 'deny_all' }, steps }
  const build = await of.finished(await of.begin('recipe-real', { recipe, upload_id, auto_publish: true }))
  assert.deepEqual([build.state, build.error, build.version, build.published], ['succeeded', null, 1, true])
  await until('the log is whole', 60_000, async () => /Version 1 is there/.test(await log(build.id)))
  assert.match(await log(build.id), /==> step 1 of 3: copy .*\n(.|\n)*==> step 2 of 3: .*\nsaid aloud\n==> step 3 of 3: /)
  const opened = await client.open('recipe-opened', { template: 'recipe-real' })
  assert.equal(await shell(opened, 'cat $GREETING /srv/app/where'), 'hello\nfrom a step\nroot\n/srv/app')
})

test('a Dockerfile on that version is built, and a second build of it runs no step', async () => {
  const dockerfile = 'FROM recipe-real\nWORKDIR /srv/docked\nRUN tr a-z A-Z < $GREETING > louder\n'
  const first = await of.finished(await of.begin('docked-real', { dockerfile }))
  assert.deepEqual([first.state, first.error], ['succeeded', null])
  const second = await of.finished(await of.begin('docked-real', { dockerfile, auto_publish: true }))
  assert.deepEqual([second.state, second.version, second.published], ['succeeded', 2, true])
  assert.match(await log(second.id), /\(as before\)/)
  const opened = await client.open('docked-opened', { template: 'docked-real' })
  assert.equal(await shell(opened, 'cat /srv/docked/louder'), 'HELLO\nFROM A STEP')
})

test('a failed step is reported with its number and exit code, and makes no version', async () => {
  const recipe = { base: 'base', egress: { mode: 'deny_all' }, steps: [{ run: 'true' }, { run: 'echo the reason >&2; exit 3' }] }
  const build = await of.finished(await of.begin('failing-real', { recipe }))
  const { reason, step, exit_code } = build.error?.details as Record<string, unknown>
  assert.deepEqual([build.state, build.version, reason, step, exit_code], ['failed', null, 'step_failed', 2, 3])
  assert.match(await log(build.id), /the reason\n/)
})

test('a build canceled during a step makes no version and leaves no machine', async () => {
  const recipe = { base: 'base', egress: { mode: 'deny_all' }, steps: [{ run: 'echo it has begun; sleep 1000' }] }
  const build = await of.begin('canceled-real', { recipe })
  await until('the step runs', 120_000, async () => (await log(build.id)).includes('it has begun\n'))
  assert.equal((await client.api(`/v1/template-builds/${build.id}/cancel`, { method: 'POST' })).status, 200)
  assert.equal((await of.finished(build)).state, 'canceled')
  await until('its machine is gone', 120_000, async () => (await machineOf(build.id)).length === 0)
})

const machineOf = (id: string) => service.query('select 1 from machines where id = $1', [id])

test('the commands of docs/guides/template-builds.md print what it says', { timeout: patience(300_000) }, async () => {
  const guide = readGuide('template-builds.md')
  assert.ok(guide.prints.length > 0)
  assert.equal(await printedBy(guide, service), guide.prints)
})
