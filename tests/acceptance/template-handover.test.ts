// One installation opens a template version of another.
import assert from 'node:assert/strict'
import path from 'node:path'
import { after, before, test } from 'node:test'
import type { TemplateBuild } from '../../contract/schemas/template-builds.ts'
import { createClient, type Client } from '../support/client.ts'
import { until } from '../support/processes.ts'
import { startService, type Service } from '../support/service.ts'
import { type SharedService, sharedService } from '../support/shared-services.ts'

let here: SharedService
let there: Service
let client: Client
before(async () => {
  here = await sharedService()
  client = createClient(here.base_url, here.api_key)
  there = await startService()
})
after(async () => {
  await there.stop()
  await here.stop()
})

test('a saved version is exported, imported into another installation, and opened there with all its files', async () => {
  const source = await client.open('handover', { template: 'base' })
  await client.run(source, [
    'sh',
    '-c',
    'echo made here > /home/user/kept && chmod 600 /home/user/kept && sudo mv /etc/alternatives /etc/moved',
  ])
  const json = { template_slug: 'handed-over', auto_publish: true }
  let { build } = (await client.api<{ build: TemplateBuild }>(`/v1/workspaces/${source.id}/save-as-template`, { json })).body
  await until('the build is over', 300_000, async () => {
    build = (await client.api<TemplateBuild>(`/v1/template-builds/${build.id}`, { headers: { prefer: 'wait=20' } })).body
    return build.completed_at !== null
  })
  assert.deepEqual([build.state, build.version], ['succeeded', 1])
  const file = path.join(there.data_dir, 'handed-over.berth')
  await here.admin('template', 'export', '--slug', 'handed-over', '--organization', here.organization, '--output', file)
  for (const _ of ['first', 'again']) {
    assert.equal((await there.admin('template', 'import', '--input', file)).trim(), 'handed-over version 1')
  }
  const other = createClient(there.base_url, there.api_key)
  const opened = await other.open('from-elsewhere', { template: 'handed-over' })
  const look = 'cat /home/user/kept; stat -c %a:%U /home/user/kept; test -n "$(ls /etc/moved)" && ! test -e /etc/alternatives && echo moved'
  assert.equal((await other.run(opened, ['sh', '-c', look])).stdout, 'made here\n600:user\nmoved\n')
})
