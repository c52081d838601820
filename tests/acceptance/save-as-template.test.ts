import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { after, before, test } from 'node:test'
import type { TemplateBuild } from '../../contract/schemas/template-builds.ts'
import type { TemplateFile, TemplateFileChange } from '../../contract/schemas/template-files.ts'
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

/** The guest generates a provider's token, because this file must contain none. */
const LEAK = `python3 -c 'import random, string; print("KEY=" + "gh" + "p_" + "".join(random.choices(string.ascii_letters + string.digits, k=36)))' > /home/user/leak.env`
const CHANGE = `set -e
mkdir -p /home/user/app && echo v1 > /home/user/app/name && ln /home/user/app/name /home/user/app/same && ln -s name /home/user/app/link
chmod 700 /home/user/app && sudo rm /usr/share/zoneinfo/UTC
echo secret > /tmp/scratch; echo ls > /home/user/.bash_history
sudo sh -c 'echo line > /var/log/app.log; mkdir /usr/share/misc/kept; mv /etc/alternatives /etc/moved'`

test('a workspace of a saved template has the changes of the source, without the scrubbed files', async () => {
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

test('files of the version are listed and compared with the base: moved, deleted and changed ones', async () => {
  const at = '/v1/templates/saved-real/versions/2'
  const listed = await asked<TemplateFile>(`${at}/files?path=/home/user/app`)
  assert.deepEqual(
    listed.map(({ name, type, mode, target }) => [name, type, mode, target]),
    [
      ['link', 'symlink', '0777', 'name'],
      ['name', 'file', '0644', null],
      ['same', 'file', '0644', null],
    ],
  )
  const sha256 = createHash('sha256').update('v2\n').digest('hex')
  assert.deepEqual([listed[1]?.sha256, listed[2]?.sha256], [sha256, sha256])
  const changes = await asked<TemplateFileChange>(`${at}/diff?against=base@1&limit=1000`)
  const told = new Map(changes.map(({ path, change }) => [path, change]))
  const [moved = ''] = (await asked<TemplateFile>(`${at}/files?path=/etc/moved`)).map(({ name }) => name)
  const paths = [
    '/usr/share/zoneinfo/UTC',
    '/etc/alternatives',
    `/etc/alternatives/${moved}`,
    `/etc/moved/${moved}`,
    '/home/user/app/name',
    '/usr/bin/env',
    '/tmp/scratch',
  ]
  assert.deepEqual(
    paths.map((path) => told.get(path)),
    ['deleted', 'deleted', 'deleted', 'added', 'added', undefined, undefined],
  )
  const between = await asked<TemplateFileChange>(`${at}/diff?against=1`)
  assert.deepEqual(
    between.map(({ path, change }) => `${change} ${path}`).filter((each) => each.includes('/home/user')),
    ['modified /home/user/app/name', 'modified /home/user/app/same', 'deleted /home/user/leak.env'],
  )
})

async function asked<Row>(path: string): Promise<Row[]> {
  let answer = await client.api<{ data: Row[] }>(path)
  await until('the files are listed', 300_000, async () => {
    answer = await client.api(path)
    return answer.status !== 409
  })
  assert.equal(answer.status, 200, JSON.stringify(answer.body))
  return answer.body.data
}

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
