import assert from 'node:assert/strict'
import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { createClient, type Client } from '../support/client.ts'
import { isLong } from '../support/depth.ts'
import { until } from '../support/processes.ts'
import { type SharedService, sharedService } from '../support/shared-services.ts'
import { builds, type Builds } from '../support/template-builds.ts'

let service: SharedService
let client: Client
let of: Builds
before(async () => {
  service = await sharedService()
  client = createClient(service.base_url, service.api_key)
  of = builds(client)
})
after(() => service.stop())

const recipe = (run: string, timeout_seconds = 60) => ({
  base: 'base',
  egress: { mode: 'deny_all' },
  defaults: { memory_mib: 512, disk_gib: 1 },
  steps: [{ run, timeout_seconds }],
})

async function nothingIsLeft(build_id: string): Promise<void> {
  assert.deepEqual(await service.query('select 1 from machines where id = $1', [build_id]), [])
  assert.deepEqual(await service.query('select 1 from template_versions v join template_builds b on b.version_id = v.id where b.id = $1', [build_id]), []) // prettier-ignore
  await until('the host has nothing of it', 120_000, async () => {
    const { machines, files } = await service.inventory()
    return ![...machines, ...files].some(({ subject }) => subject.id === build_id)
  })
}

const HOSTILE: [what: string, run: string, timeout_seconds: number, why: RegExp, said: RegExp][] = [
  ['fills the disk', 'cat /dev/zero > /filled', 300, /ended with 1/, /No space left|Disk quota exceeded/],
  ['never ends', 'echo begun; exec sleep 100000', 3, /did not end within 3 seconds/, /begun/],
  ['forks without end', 'f() { f | f & }; f; f; sleep 100000', 15, /did not end within 15 seconds|ended with|ended by|does not answer|was lost/, /./],
  ['says more than there is room for', 'yes a line that says nothing, again and again', 300, /said more than (67108864 bytes|can be kept)/, /a line that says nothing/],
  ['leaves a directory that is too deep for a path', 'd=dddddddddddddddddddddddddddddddddddddddddddddddddd; n=0; while [ $n -lt 90 ]; do mkdir -p $d && cd $d || exit 7; n=$((n + 1)); done; echo deep', 120, /path is too long|ended with/, /./],
] // prettier-ignore

const skip = isLong ? false : 'npm run test:long'
for (const [what, run, timeout_seconds, why, said] of HOSTILE) {
  test(`a step that ${what} ends with a reason, and leaves nothing`, { skip }, async () => {
    const build = await of.finished(
      await of.begin(`hostile-${HOSTILE.findIndex((one) => one[0] === what)}`, { recipe: recipe(run, timeout_seconds) }),
    )
    assert.deepEqual([build.state, build.version, build.error?.code], ['failed', null, 'dependency_failed'])
    assert.match(build.error?.message ?? '', why)
    assert.match(await of.log(build.id), said)
    await nothingIsLeft(build.id)
  })
}

test('a version whose image was changed on disk cannot be opened until the image is repaired', async () => {
  const build = await of.finished(await of.begin('tampered', { recipe: recipe('echo kept > /kept'), auto_publish: true }))
  assert.equal(build.state, 'succeeded')
  const { layers } = (await client.api<{ layers: string[] }>('/v1/templates/tampered/versions/1')).body
  const image = path.join(service.data_dir, 'layers', `${layers.at(-1)}.erofs`)
  const good = readFileSync(image)
  const changed = Buffer.from(good)
  changed[changed.length - 1] = (changed.at(-1) ?? 0) ^ 1
  chmodSync(image, 0o644)
  writeFileSync(image, changed)
  const refused = await client.operate('/v1/workspaces/open', { json: { key: 'tampered', template: 'tampered' } })
  assert.deepEqual([refused.state, refused.error?.code], ['failed', 'dependency_failed'])
  const on_it = { base: 'tampered', egress: { mode: 'deny_all' }, env: { OTHER: 'yes' } }
  const built = await of.finished(await of.begin('on-tampered', { recipe: on_it }))
  assert.deepEqual([built.state, built.version], ['failed', null])
  writeFileSync(image, good)
  const again = await client.open('tampered-again', { template: 'tampered' })
  assert.equal((await client.run(again, ['cat', '/kept'])).stdout, 'kept\n')
})
