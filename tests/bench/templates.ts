import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { TemplateVersion } from '../../contract/schemas/templates.ts'
import { createClient } from '../support/client.ts'
import { until } from '../support/processes.ts'
import type { Service } from '../support/service.ts'
import { measure, timed } from './harness.ts'

const SMALL = { cpu_millis: 1000, memory_mib: 512, disk_gib: 2 }
const SLOW = 'sleep 5; touch /home/user/began; exec sleep 100000'
const SETTINGS = {
  env: {},
  inputs: {},
  defaults: SMALL,
  ceiling: SMALL,
  services: [{ name: 'slow', argv: ['sh', '-c', SLOW], ready: { argv: ['test', '-e', '/home/user/began'] } }],
}

export async function templateRows(service: Service): Promise<void> {
  const client = createClient(service.base_url, service.api_key)
  const folder = mkdtempSync(path.join(tmpdir(), 'berth-bench-'))
  const settings = path.join(folder, 'settings.json')
  for (const [slug, warm] of [
    ['slow', false],
    ['slow-warm', true],
  ] as const) {
    writeFileSync(settings, JSON.stringify({ ...SETTINGS, warm }))
    await service.admin('template', 'publish', '--slug', slug, '--settings', settings)
  }
  rmSync(folder, { recursive: true })
  let n = 0
  const opens = (template: string) => async () => {
    await service.slots_ready()
    let id = ''
    const ms = await timed(async () => {
      id = (await client.open(`bench-${template}-${n++}`, { template })).id
    })
    await client.operate(`/v1/workspaces/${id}`, { method: 'DELETE' })
    return ms
  }
  const subject = opens('slow-warm')
  await subject() // triggers the making of the warm image
  const version = async () => (await client.api<TemplateVersion>('/v1/templates/slow-warm/versions/1')).body
  await until('it is warm', 120_000, async () => (await version()).warm?.state === 'ready')
  await measure(
    { row: 24, name: 'templates', title: 'open of a warm template whose service needs 5 s, until it is ready', bar: { at_most: 0.1 } },
    { reference: opens('slow'), subject },
    { pairs: 5, samples_max: 3, warm_ups: 3 },
  )
}
