import { createHash } from 'node:crypto'
import type { AppRoute } from '../../contract/route.ts'
import { APP_ROUTES } from '../../contract/routes/app/all.ts'
import { seeder, SETTINGS, type Answer, type CallOptions, type World } from '../api/support.ts'
import { draftState } from '../support/drafts.ts'
import { layerList } from '../support/layer-lists.ts'
import { unpublishedVersion } from '../support/template-versions.ts'
import { readyExport } from '../support/exports.ts'
import { idsOf, sampleOf } from './samples.ts'

export type Ids = Record<string, string>

export async function ownIds(w: World): Promise<Ids> {
  const workspace_id = await w.running('generated')
  const suspended = await w.post(`/v1/workspaces/${workspace_id}/suspend`)
  await w.cell.succeed(suspended.body.id)
  for (const agent_label of ['one', 'two']) await w.post(`/v1/workspaces/${workspace_id}/tool-tokens`, { agent_label })
  const seeds = seeder(w.database, w.clock, w.ids)
  const { checkpoint, volume, attachment } = seeds
  for (const label of ['one', 'two']) await checkpoint(workspace_id, { label })
  const checkpoint_id = await checkpoint(workspace_id, { label: 'three' })
  const second = await w.running('generated-2')
  const volume_ids = [await volume(w.a, w.cell_id), await volume(w.a, w.cell_id)] as const
  for (const [place, volume_id] of volume_ids.entries()) await attachment(workspace_id, volume_id, { place })
  for (const port of [3001, 3000]) await w.call('PUT', `/v1/workspaces/${workspace_id}/ports/${port}`)
  const { organization_id, project_id } = w.a
  const { token: owner, id: owner_id } = await seeds.person(organization_id, 'owner', { stepped_up: true })
  const session_id = await seeds.session(owner_id)
  const secret = async (path: string, name: string) => (await w.post(path, { name, value: 'v' }, { as: owner })).body.id
  for (const name of ['ONE', 'TWO']) await secret(`/v1/organizations/${organization_id}/secrets`, name)
  await secret(`/v1/projects/${project_id}/secrets`, 'ONE')
  const secret_id = await secret(`/v1/projects/${project_id}/secrets`, 'TWO')
  await w.post(`/v1/secrets/${secret_id}/versions`, { value: 'v2' })
  for (const scope of [`/v1/projects/${project_id}`, `/v1/workspaces/${workspace_id}`]) {
    for (const mode of ['deny_all', 'allow_all']) await w.call('PUT', `${scope}/egress-policy`, { body: { mode } })
  }
  for (const note of ['one', 'two']) await seeds.grant(organization_id, { note })
  const invoice_id = await seeds.invoice(organization_id, 0)
  await seeds.invoice(organization_id, 1)
  const port = '3000'
  const own = {
    ...(await personIds(w, owner)),
    workspace_id,
    port,
    invoice_id,
    checkpoint_id,
    volume_id: volume_ids[0],
    operation_id: suspended.body.id,
    organization_id,
    project_id,
  }
  for (const slug of ['other', 'own']) await seeds.template(organization_id, slug, SETTINGS)
  const upload_id = await upload(w)
  const version = String(await unpublishedVersion(w, organization_id, 'own', SETTINGS))
  for (const layer of ['0', '1'])
    await layerList(
      w.database.superuser,
      layer.repeat(64),
      ['a', 'b'].map((name) => name + layer),
    )
  const saving = `/v1/workspaces/${second}/save-as-template`
  const build_id = (await w.post(saving, { template_slug: 'own' })).body.build.id
  const drafted = (await w.post('/v1/templates/own/draft')).body
  await w.cell.succeed(drafted.operation.id)
  for (const label of ['one', 'two']) await draftState(w, drafted.draft.workspace_id, label)
  for (const key of ['tries-one', 'tries-two']) await w.post('/v1/templates/own/draft/test-instances', { key })
  const account_export_id = await readyExport(w, { organization_id: null, requested_by: owner_id })
  await readyExport(w, { organization_id: null, requested_by: owner_id })
  const export_id = await readyExport(w, { organization_id, requested_by: owner_id })
  await readyExport(w, { organization_id, requested_by: owner_id })
  return {
    build_id,
    account_export_id,
    export_id,
    [OWNER]: owner,
    [PERSON]: owner_id,
    secret_id,
    session_id,
    slug: 'own',
    version,
    upload_id,
    ...own,
  }
}

export async function upload(w: World): Promise<string> {
  const body = { size_bytes: 5, sha256: createHash('sha256').update('bytes').digest('hex') }
  return (await w.post('/v1/template-uploads', body)).body.id
}

async function personIds(w: World, owner: string): Promise<Ids> {
  const { organization_id, project_id } = w.a
  const seeds = seeder(w.database, w.clock, w.ids)
  const { id: person_id } = await seeds.person(organization_id, 'member')
  const invite = (email: string) => w.post(`/v1/organizations/${organization_id}/invitations`, { email, role: 'member' }, { as: owner })
  const invitation_id: string = (await invite('one@example.com')).body.id
  await invite('two@example.com')
  const { key_row_id: api_key_id } = await seeds.key(organization_id, project_id)
  return { person_id, invitation_id, api_key_id }
}

/** Key in `Ids` of an owner's session token, for routes that refuse API keys. */
export const OWNER = 'owner'
export const PERSON = 'person'

export function usualCaller(w: World, { access }: AppRoute, ids: Ids): string {
  return (access.kind === 'principal' && (access.keys === 'forbidden' || access.keys === 'unknown') ? ids[OWNER] : undefined) ?? w.a.key
}

export async function memberOfTwo(w: World): Promise<string> {
  const seeds = seeder(w.database, w.clock, w.ids)
  const { id, token } = await seeds.person(w.a.organization_id, 'admin')
  const other = await seeds.tenant('other-of-member', await seeds.plan('other-of-member'))
  const membership = { organization_id: other.organization_id, person_id: id, role: 'member' as const, created_at: w.clock.now() }
  await w.database.superuser.insertInto('memberships').values(membership).execute()
  await seeds.session(id)
  for (const organization_id of [null, null]) await readyExport(w, { organization_id, requested_by: id })
  return token
}

export const routesWithIds = APP_ROUTES.filter((route) => idsOf(route).length > 0)
export const routesWithBody = APP_ROUTES.filter(({ method, body }) => method !== 'GET' && body !== 'bytes')

export function ask(w: World, route: AppRoute, ids: Ids = {}, { body, ...options }: Omit<CallOptions, 'body'> & { body?: object } = {}) {
  const { method, path, json, bytes } = sampleOf(route, ids, body)
  const sent = bytes === undefined ? json : Buffer.from(bytes).toString()
  return w.call(method, path, { as: usualCaller(w, route, ids), ...options, ...(sent === undefined ? {} : { body: sent }) })
}

export function said({ status, body }: Answer): string {
  if (status < 400) return String(status)
  const { code, details } = body.error
  return `${status} ${code}${details?.reason === undefined ? '' : `/${details.reason}`}`
}
