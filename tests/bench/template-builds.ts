import type { TemplateBuild } from '../../contract/schemas/template-builds.ts'
import { createClient, type Client, type OpenedWorkspace } from '../support/client.ts'
import type { Service } from '../support/service.ts'
import { builds, type Builds } from '../support/template-builds.ts'
import { measure, timed } from './harness.ts'

const MIB = 1 << 20
const EGRESS = { mode: 'deny_all' } as const
const slowStep = (word: string) => ({ run: `: ${word}; head -c ${400 * MIB} /dev/zero | sha256sum > /srv/${word}` })
const bytes = (mib: number) => ({ run: `head -c ${mib * MIB} /dev/urandom > /srv/${mib}-mib` })

export async function templateBuildRows(service: Service, only?: string): Promise<void> {
  const client = createClient(service.base_url, service.api_key)
  const world = { service, client, of: builds(client) }
  if (only === undefined || only === 'steps') await lastStepRow(world)
  if (only === undefined || only === 'publish') await publishRow(world)
  if (only === undefined || only === 'layers') await layersRow(world)
}

interface World {
  service: Service
  client: Client
  of: Builds
}

async function build({ of }: World, slug: string, steps: object[]): Promise<void> {
  const begun = await of.begin(slug, { recipe: { base: 'base', egress: EGRESS, steps }, auto_publish: true })
  succeeded(await of.finished(begun))
}

function succeeded({ state, error }: TemplateBuild): void {
  if (state !== 'succeeded') throw new Error(`a build is ${state}: ${JSON.stringify(error)}`)
}

async function lastStepRow(world: World): Promise<void> {
  let n = 0
  const steps = (first: string, last: string) => [first, 'second', 'third', 'fourth', 'fifth', 'sixth', 'seventh', last].map(slowStep)
  const whole = () => timed(() => build(world, 'bench-steps', steps(`first-${n++}`, 'last')))
  const changed = () => timed(() => build(world, 'bench-steps', steps('first', `last-${n++}`)))
  await measure(
    { row: 0, name: 'build-last-step', title: 'build of eight steps of which the last one changed', bar: { at_most: 0.2 } },
    { reference: whole, subject: changed },
    { pairs: 3, samples_max: 1 },
  )
}

async function publishRow(world: World): Promise<void> {
  await build(world, 'bench-large', [bytes(1024)])
  const publishes = async (slug: string, base: string) => {
    const workspace = await draft(world, slug, base)
    const { exit } = await world.client.run(workspace, ['sh', '-c', bytes(100).run.replace('/srv', '/home/user')])
    if (exit.exit_code !== 0) throw new Error(`the bytes of ${slug} were not written`)
    return () => timed(() => publish(world, slug))
  }
  const reference = await publishes('bench-draft-of-little', 'base@1')
  const subject = await publishes('bench-draft-of-much', 'bench-large@1')
  await measure(
    { row: 0, name: 'publish-changed', title: 'publish of a draft with 100 MiB on a base with 1 GiB more', bar: { at_most: 1.2 } },
    { reference, subject },
    { pairs: 5, samples_max: 1 },
  )
}

async function draft({ client }: World, slug: string, base: string): Promise<OpenedWorkspace> {
  const at = `/v1/templates/${slug}/draft`
  await client.operate(at, { json: { base } })
  const { workspace_id: id } = (await client.api<{ workspace_id: string }>(at)).body
  const { cell_endpoint: endpoint } = (await client.api<{ cell_endpoint: string }>(`/v1/workspaces/${id}`)).body
  return { id, endpoint, token: await client.token(id), operation_id: null }
}

async function publish({ client, of }: World, slug: string): Promise<void> {
  const { status, body } = await client.api<{ build: TemplateBuild }>(`/v1/templates/${slug}/draft/publish`, { json: {} })
  if (status !== 202) throw new Error(`a publish was answered with ${status}`)
  succeeded(await of.finished(body.build))
}

async function layersRow(world: World): Promise<void> {
  const mark = (n: number) => ({ run: `echo ${n} > /srv/layer-${n}` })
  await build(world, 'bench-one-layer', [mark(1)])
  await build(world, 'bench-five-layers', [1, 2, 3, 4, 5].map(mark))
  let n = 0
  const opens = (template: string) => async () => {
    await world.service.slots_ready()
    let id = ''
    const ms = await timed(async () => {
      const opened = await world.client.open(`bench-${template}-${n++}`, { template })
      id = opened.id
      await world.client.run(opened, ['/bin/true'])
    })
    await world.client.operate(`/v1/workspaces/${id}`, { method: 'DELETE' })
    return ms
  }
  await measure(
    { row: 0, name: 'open-layers', title: 'open of a template of five layers to its first result', bar: { at_most: 1.1 } },
    { reference: opens('bench-one-layer'), subject: opens('bench-five-layers') },
    { pairs: 15, samples_max: 3, warm_ups: 3 },
  )
}
