import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import type { AppRoute } from '../../contract/route.ts'
import { seeder, SETTINGS, type World } from '../api/support.ts'
import { draftState } from '../support/drafts.ts'
import { unpublishedVersion } from '../support/template-versions.ts'
import { OWNER, PERSON, upload, type Ids } from './app-world.ts'
import { isSignIn, signInBody, signInScene } from './auth-scenes.ts'

const suspended = async (w: World, key: string) => {
  const id = await w.running(key)
  await w.cell.succeed((await w.post(`/v1/workspaces/${id}/suspend`)).body.id)
  return id
}
const exposed = async (w: World, key: string) => {
  const id = await w.running(key)
  await w.call('PUT', `/v1/workspaces/${id}/ports/3000`)
  return id
}
export async function treeOf(w: World, key: string): Promise<string> {
  const id = await w.running(key)
  await asTree(w, id)
  return id
}

export async function asTree(w: World, workspace_id: string): Promise<void> {
  const { superuser: db } = w.database
  const now = w.clock.now()
  await db.updateTable('workspaces').set({ mode: 'file_first', tree_revision: 0 }).where('id', '=', workspace_id).execute()
  const tree = { workspace_id, root: null, created_at: now, updated_at: now }
  await db
    .insertInto('trees')
    .values(tree)
    .onConflict((conflict) => conflict.doNothing())
    .execute()
}

const CHECKPOINT = '01920000-0000-7000-8000-00000000c0de'
/** Each new route needs an entry. */
const SCENES: Record<string, (w: World, key: string) => Promise<string | Ids | undefined>> = {
  'workspaces.open': async () => undefined,
  'workspaces.delete': (w, key) => w.running(key),
  'workspaces.suspend': (w, key) => w.running(key),
  'workspaces.resume': suspended,
  'workspaces.fork': (w, key) => w.running(key),
  'workspaces.fork_tree': treeOf,
  'workspaces.snapshot': (w, key) => w.running(key),
  'workspaces.adopt': async (w, key) => {
    const workspace_id = await w.running(key)
    const { body } = await w.post(`/v1/workspaces/${workspace_id}/fork`, { key: `${key}-fork` })
    await w.cell.succeed(body.operation.id)
    return { workspace_id, fork_workspace_id: body.workspace.id as string }
  },
  'workspaces.reset': (w, key) => w.running(key),
  'workspaces.restore': async (w, key) => {
    const id = await w.running(key)
    await seeder(w.database, w.clock, w.ids).checkpoint(id, { id: CHECKPOINT })
    return id
  },
  'checkpoints.delete': async () => undefined,
  'workspaces.close': (w, key) => w.running(key, { lifetime: 'session' }),
  'workspaces.suspend_when_idle': (w, key) => w.running(key),
  'workspaces.cancel_suspend_when_idle': async (w, key) => {
    const id = await w.running(key)
    await w.post(`/v1/workspaces/${id}/suspend-when-idle`, { after_seconds: 30 })
    return id
  },
  'workspaces.idle_policy': (w, key) => w.running(key),
  'workspaces.set_secrets': (w, key) => w.running(key),
  'secrets.create': async () => undefined,
  'secrets.create_of_organization': async () => undefined,
  'secrets.update': async () => undefined,
  'secrets.delete': async () => undefined,
  'secret-versions.create': async () => undefined,
  'egress.project_put': async () => undefined,
  'egress.workspace_put': (w, key) => w.running(key),
  'egress.workspace_delete': async (w, key) => {
    const id = await w.running(key)
    await w.call('PUT', `/v1/workspaces/${id}/egress-policy`, { body: { mode: 'deny_all' } })
    return id
  },
  'spend.policy_put': async () => undefined,
  'account.delete': async (w) => {
    const { id, email, token } = await seeder(w.database, w.clock, w.ids).person(w.b.organization_id, 'member', { stepped_up: true })
    return { [OWNER]: token, [PERSON]: id, email }
  },
  'organizations.delete': async (w, key) => {
    const slug = key.replaceAll(/[^a-z]+/g, '-')
    const seeds = seeder(w.database, w.clock, w.ids)
    const { organization_id } = await seeds.tenant(slug, await seeds.plan(slug))
    const { id, token } = await seeds.person(organization_id, 'owner', { stepped_up: true })
    return { [OWNER]: token, [PERSON]: id, organization_id, confirm_slug: slug }
  },
  'exports.create': async () => undefined,
  'exports.create_of_organization': async () => undefined,
  'feedback.create': async () => undefined,
  'spend.alerts_put': async () => undefined,
  'organizations.create': async () => undefined,
  'organizations.update': async () => undefined,
  'projects.create': async () => undefined,
  'projects.update': async () => undefined,
  'members.update': async (w) => ({ person_id: (await member(w)).id }),
  'members.delete': async (w) => ({ person_id: (await member(w)).id }),
  'invitations.create': async () => undefined,
  'invitations.resend': (w, key) => invitation(w, key),
  'invitations.delete': (w, key) => invitation(w, key),
  'invitations.accept': async (w, key) => {
    const { id, email, token: owner } = await seeder(w.database, w.clock, w.ids).person(w.b.organization_id, 'member')
    return { ...(await invitation(w, key, email)), [OWNER]: owner, [PERSON]: id, token: TOKEN_OF_INVITATION(key) }
  },
  'api-keys.create': async () => undefined,
  'api-keys.update': async () => undefined,
  'api-keys.delete': async (w) => ({
    api_key_id: (await seeder(w.database, w.clock, w.ids).key(w.a.organization_id, w.a.project_id)).key_row_id,
  }),
  'test-instances.create': unpublished,
  'test-instances.create_of_organization': unpublished,
  'drafts.create': templateOfItsOwn,
  'drafts.create_of_organization': templateOfItsOwn,
  'drafts.discard': drafted,
  'drafts.discard_of_organization': drafted,
  'draft-states.create': drafted,
  'draft-states.create_of_organization': drafted,
  'draft-test-instances.create': drafted,
  'draft-test-instances.create_of_organization': drafted,
  'drafts.publish': drafted,
  'drafts.publish_of_organization': drafted,
  'templates.archive': templateOfItsOwn,
  'templates.archive_of_organization': templateOfItsOwn,
  'template-versions.publish': unpublished,
  'template-versions.publish_of_organization': unpublished,
  'template-versions.archive': unpublished,
  'template-versions.archive_of_organization': unpublished,
  'workspaces.save_as_template': (w, key) => w.running(key),
  'template-builds.create': async () => undefined,
  'template-builds.create_of_organization': async () => undefined,
  'template-builds.cancel': async (w, key) => {
    const saving = `/v1/workspaces/${await w.running(key)}/save-as-template`
    return { build_id: (await w.post(saving, { template_slug: 'own' })).body.build.id }
  },
  'template-uploads.create': async () => undefined,
  'template-uploads.part': async (w) => ({ upload_id: await upload(w) }),
  'template-uploads.delete': async (w) => ({ upload_id: await upload(w) }),
  'tool-tokens.create': (w, key) => w.running(key),
  'volumes.create': async () => undefined,
  'volumes.delete': async (w) => ({ volume_id: await volume(w) }),
  'attachments.create': async (w, key) => {
    await volume(w, VOLUME)
    return w.running(key)
  },
  'attachments.delete': async (w, key) => {
    const [workspace_id, volume_id] = [await w.running(key), await volume(w)]
    await seeder(w.database, w.clock, w.ids).attachment(workspace_id, volume_id)
    return { workspace_id, volume_id }
  },
  'ports.expose': (w, key) => w.running(key),
  'ports.close': exposed,
  'port-tokens.create': exposed,
  'port-links.create': exposed,
  'port-callbacks.create': exposed,
  'port-callbacks.delete': async (w, key) => {
    const id = await exposed(w, key)
    await w.post(`/v1/workspaces/${id}/ports/3000/callback`)
    return id
  },
}
const member = (w: World) => seeder(w.database, w.clock, w.ids).person(w.a.organization_id, 'member')
const TOKEN_OF_INVITATION = (key: string) => `token-of-${key}`
async function invitation(w: World, key: string, email = `${w.ids.next()}@example.com`): Promise<Ids> {
  const id = w.ids.next()
  const token_sha256 = createHash('sha256').update(TOKEN_OF_INVITATION(key)).digest()
  const times = { created_at: w.clock.now(), expires_at: new Date(w.clock.now().getTime() + 3600_000), accepted_at: null, revoked_at: null }
  await w.database.superuser
    .insertInto('invitations')
    .values({ id, organization_id: w.a.organization_id, email, role: 'member', invited_by: null, token_sha256, ...times })
    .execute()
  return { invitation_id: id }
}
const slugged = (key: string) => ({ name: key, slug: key.replaceAll(/\W|_/g, '-') })
async function templateOfItsOwn(w: World, key: string): Promise<Ids> {
  const slug = key.replaceAll(/[^a-z0-9]+/g, '-').replaceAll(/^-|-$/g, '')
  await seeder(w.database, w.clock, w.ids).template(w.a.organization_id, slug, SETTINGS)
  return { slug }
}
async function drafted(w: World, key: string): Promise<Ids> {
  const ids = await templateOfItsOwn(w, key)
  const { body } = await w.post(`/v1/templates/${ids['slug']}/draft`)
  await w.cell.succeed(body.operation.id)
  await draftState(w, body.draft.workspace_id)
  return ids
}
async function unpublished(w: World): Promise<Ids> {
  return { slug: 'own', version: String(await unpublishedVersion(w, w.a.organization_id, 'own', SETTINGS)) }
}
const VOLUME = '01920000-0000-7000-8000-0000000d15c0'
async function volume(w: World, id = w.ids.next()): Promise<string> {
  const there = await w.database.superuser.selectFrom('volumes').select('id').where('id', '=', id).executeTakeFirst()
  return there?.id ?? seeder(w.database, w.clock, w.ids).volume(w.a, w.cell_id, { id })
}
const nameOf = (key: string) => ({ name: key.replaceAll(/\W/g, '_') })
const BODIES: Record<string, (key: string, ids: Ids) => object> = {
  'account.delete': (_key, { email }) => ({ confirm_email: email }),
  'organizations.delete': (_key, { confirm_slug }) => ({ confirm_slug }),
  'feedback.create': (key) => ({ message: `of ${key}` }),
  'organizations.create': slugged,
  'organizations.update': (key) => ({ name: key }),
  'projects.create': slugged,
  'projects.update': (key) => ({ name: key }),
  'members.update': () => ({ role: 'billing' }),
  'invitations.create': (key) => ({ email: `${key}@example.com`, role: 'member' }),
  'invitations.accept': (_key, { token }) => ({ token }),
  'api-keys.update': (key) => ({ name: key }),
  'workspaces.open': (key) => ({ key: `${key}-new` }),
  'workspaces.fork': (key) => ({ key: `${key}-new` }),
  'workspaces.fork_tree': (key) => ({ key: `${key}-new` }),
  'workspaces.restore': () => ({ checkpoint_id: CHECKPOINT }),
  'workspaces.adopt': (_key, { fork_workspace_id }) => ({ fork_workspace_id }),
  'workspaces.reset': () => ({ confirm_destructive: true }),
  'workspaces.set_secrets': () => ({ names: ['ONE'] }),
  'secrets.create': nameOf,
  'secrets.create_of_organization': nameOf,
  'secrets.update': (key) => ({ description: key }),
  'workspaces.save_as_template': () => ({ template_slug: 'own' }),
  'template-builds.create': () => ({ recipe: { base: 'base' } }),
  'template-builds.create_of_organization': () => ({ recipe: { base: 'base' } }),
  'template-uploads.create': () => ({ size_bytes: 2, sha256: '0'.repeat(64) }),
  'volumes.create': (key) => ({ name: key, quota_gib: 1 }),
  'attachments.create': () => ({ volume_id: VOLUME, mount_path: '/home/user/data' }),
}
export const bodyOf = (route: AppRoute, key: string, ids: Ids): object =>
  isSignIn(route) ? signInBody(route, ids) : (BODIES[route.id]?.(key, ids) ?? {})

/** Makes the resources of the route. @returns the ids of its path */
export async function sceneOf(w: World, own: Ids, route: AppRoute, key: string): Promise<Ids> {
  if (isSignIn(route)) return { ...own, ...(await signInScene(w, route)) }
  const scene = SCENES[route.id]
  assert.ok(scene, `say in SCENES where ${route.id} has something to do`)
  const made = await scene(w, key)
  if (made !== undefined) return { ...own, ...(typeof made === 'string' ? { workspace_id: made } : made) }
  if (!('secret_id' in own) || !route.path.includes('{secret_id}')) return own
  const created = await w.post(`/v1/projects/${w.a.project_id}/secrets`, { ...nameOf(`OF_${key}`), value: 'v' })
  return { ...own, secret_id: created.body.id }
}

/** Refused to all callers while operators record payments: tests/api/billing.test.ts and tests/api/payment.test.ts. */
export const NOT_SOLD = new Set(['billing.checkout', 'billing.portal', 'payment.receive'])
