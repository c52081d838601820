// Needs its own installation: the tests kill its processes.
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { arm, openMarkers } from '../chaos/arm.ts'
import type { Point } from '../chaos/points.ts'
import { havingTheirTurn } from '../chaos/rotation.ts'
import { createClient, type Client } from '../support/client.ts'
import { until } from '../support/processes.ts'
import { startService, type Service } from '../support/service.ts'
import { builds, type Builds } from '../support/template-builds.ts'

const POINTS = ['template_build.B3', 'template_build.B4', 'template_build.B5', 'template_build.B6'] as const
const points = havingTheirTurn(POINTS.map((name): Point => ({ name, owner: 'cell', kind: 'open' })))
const markers = openMarkers()
let service: Service
let client: Client
let of: Builds
before(async () => {
  process.stdout.write(`${points.map(({ name }) => name).join(', ')}\n`)
  service = await startService({ failpoints: markers.spec('kill'), settings: { slots: 1, shells: 1 } })
  client = createClient(service.base_url, service.api_key)
  of = builds(client)
})
after(async () => {
  await service.stop()
  markers.close()
})

describe('a kill -9 before any step of a build', () => {
  for (const [at, point] of points.entries()) {
    test(`${point.name}: the build makes one version, which opens`, async () => {
      const armed = await arm(service, markers, point, 'kill')
      const slug = `killed-${at}`
      const steps = [{ run: `echo ${point.name} > /first` }, { run: 'echo second > /second' }]
      const recipe = { base: 'base', egress: { mode: 'deny_all' }, defaults: { memory_mib: 256, disk_gib: 1 }, steps }
      const build = await of.finished(await of.begin(slug, { recipe, auto_publish: true }))
      await until(`${point.name} is reached`, 30_000, () => armed.fired())
      await service.ready()
      assert.deepEqual([build.state, build.error, build.version, build.published], ['succeeded', null, 1, true])
      const rows = await service.query('select 1 from template_versions v join templates t on t.id = v.template_id where t.slug = $1', [
        slug,
      ])
      assert.equal(rows.length, 1)
      const opened = await client.open(slug, { template: slug })
      assert.equal((await client.run(opened, ['cat', '/first', '/second'])).stdout, `${point.name}\nsecond\n`)
      await client.api(`/v1/workspaces/${opened.id}`, { method: 'DELETE' })
      assert.deepEqual(await service.query("select 1 from machines where kind = 'build'"), [])
      await until('the host has nothing of the build', 120_000, async () => {
        const { machines, files } = await service.inventory()
        return ![...machines, ...files].some(({ subject }) => subject.kind === 'build')
      })
      const layers = path.join(service.data_dir, 'layers')
      const half = readdirSync(layers, { recursive: true }).filter((name) => String(name).startsWith('making/') || String(name).endsWith('.new')) // prettier-ignore
      assert.deepEqual(half, [])
    })
  }
})
