import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { TemplateBuild } from '../../contract/schemas/template-builds.ts'
import { createClient, type Client, type OpenedWorkspace } from '../support/client.ts'
import { until } from '../support/processes.ts'
import { type SharedService, sharedService } from '../support/shared-services.ts'

let service: SharedService
let client: Client
before(async () => {
  service = await sharedService()
  client = createClient(service.base_url, service.api_key)
})
after(() => service.stop())

const shell = async (at: OpenedWorkspace, script: string) => (await client.run(at, ['sh', '-c', script])).stdout.trim()

/** Written in the guest: a token of a provider's shape, made there so that this file holds none. */
const LEAK = `python3 -c 'import random, string; print("KEY=" + "gh" + "p_" + "".join(random.choices(string.ascii_letters + string.digits, k=36)))' > /home/user/leak.env`
const CHANGE = `set -e
mkdir -p /home/user/app && echo v1 > /home/user/app/name && ln /home/user/app/name /home/user/app/same && ln -s name /home/user/app/link
chmod 700 /home/user/app && sudo rm /usr/share/zoneinfo/UTC
echo secret > /tmp/scratch; echo ls > /home/user/.bash_history
sudo sh -c 'echo line > /var/log/app.log; mkdir /usr/share/misc/kept; mv /etc/alternatives /etc/moved'`

test('what a workspace has changed is in a workspace of the template that it was saved as; what is scrubbed is not', async () => {
  const source = await client.open('save-source', { template: 'base' })
  await shell(source, CHANGE)
  await shell(source, LEAK)
  const host_id = await shell(source, 'cat /etc/machine-id')
  const build = await saved(source)
  assert.deepEqual([build.state, build.error, build.version, build.published], ['succeeded', null, 1, false])
  assert.deepEqual(
    build.scan_findings.map(({ path, rule, line }) => [path, rule, line]),
    [['/home/user/leak.env', 'github_token', 1]],
  )
  assert.equal(await shell(source, 'cat /home/user/app/name'), 'v1')

  await shell(source, 'rm /home/user/leak.env; echo v2 > /home/user/app/name')
  const second = await saved(source)
  assert.deepEqual([second.state, second.version, second.published, second.scan_findings], ['succeeded', 2, true, []])
  const made = await client.open('save-target', { template: 'saved-real' })
  const look =
    'cd /home/user/app; cat name same link; stat -c %a:%h . name; ls -d /etc/alternatives /usr/share/zoneinfo/UTC /tmp/scratch /home/user/.bash_history /var/log/app.log /home/user/leak.env 2>/dev/null; test -n "$(ls /etc/moved)" && echo moved'
  const lines = (await shell(made, look)).split('\n')
  assert.deepEqual(lines.slice(0, 3), ['v2', 'v2', 'v2'])
  assert.match(lines[3] ?? '', /^700:/)
  assert.deepEqual(lines.slice(4), ['644:2', 'moved'])
  assert.notEqual(await shell(made, 'cat /etc/machine-id'), host_id)
})

async function saved({ id }: OpenedWorkspace): Promise<TemplateBuild> {
  const json = { template_slug: 'saved-real', auto_publish: true }
  const begun = await client.api<{ build: TemplateBuild }>(`/v1/workspaces/${id}/save-as-template`, { json })
  assert.equal(begun.status, 202)
  let { build } = begun.body
  await until('the build is over', 300_000, async () => {
    build = (await client.api<TemplateBuild>(`/v1/template-builds/${build.id}`, { headers: { prefer: 'wait=20' } })).body
    return build.completed_at !== null
  })
  return build
}
