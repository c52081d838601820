import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { APP_ROUTES } from '../../contract/routes/app/all.ts'
import { world, type World } from '../api/support.ts'
import { ask, ownIds, said, type Ids } from './app-world.ts'
import { isSignIn } from './auth-scenes.ts'
import { bodyOf, NOT_SOLD, sceneOf } from './scenes.ts'
import { contentOfTables } from './tables.ts'

let w: World
let own: Ids
before(async () => {
  w = await world()
  own = await ownIds(w)
})
after(() => w[Symbol.asyncDispose]())

const OTHER_BODIES: Record<string, object> = {
  'workspaces.open': { key: 'other' },
  'test-instances.create': { key: 'other' },
  'test-instances.create_of_organization': { key: 'other' },
  'drafts.create': { display_name: 'other' },
  'drafts.create_of_organization': { display_name: 'other' },
  'draft-states.create': { label: 'other' },
  'draft-states.create_of_organization': { label: 'other' },
  'draft-test-instances.create': { key: 'other' },
  'draft-test-instances.create_of_organization': { key: 'other' },
  'drafts.publish': { description: 'other' },
  'drafts.publish_of_organization': { description: 'other' },
  'workspaces.fork': { key: 'other' },
  'workspaces.fork_tree': { key: 'other' },
  'workspaces.resume': { agent_label: 'other' },
  'workspaces.snapshot': { label: 'other' },
  'workspaces.save_as_template': { template_slug: 'other' },
  'template-builds.create': { recipe: { base: 'own' } },
  'template-builds.create_of_organization': { recipe: { base: 'own' } },
  'workspaces.restore': { checkpoint_id: '01920000-0000-7000-8000-00000000beef' },
  'workspaces.adopt': { fork_workspace_id: '01920000-0000-7000-8000-00000000beef' },
  'workspaces.reset': { confirm_destructive: false },
  'workspaces.suspend_when_idle': { after_seconds: 31 },
  'secret-versions.create': { value: 'other' },
  'volumes.create': { name: 'other', quota_gib: 1 },
  'attachments.create': { volume_id: '01920000-0000-7000-8000-00000000beef' },
}

const OTHER_IDS = (w: World) => ({ workspace_id: w.ids.next(), volume_id: w.ids.next(), build_id: w.ids.next(), slug: 'other' })

/** Routes whose effect happens once, with the answer to a repeat. */
const ONCE: Record<string, string> = {
  'secrets.create': '409 conflict/name_taken',
  'secrets.create_of_organization': '409 conflict/name_taken',
  'organizations.create': '409 conflict/name_taken',
  'projects.create': '409 conflict/name_taken',
  'members.delete': '404 not_found',
  'feedback.create': '201', // the answer says that it is a duplicate
  'account.delete': '401 unauthenticated',
  'organizations.delete': '404 not_found', // the caller is no member any more
  'invitations.create': '409 conflict/concurrent_invitation',
  'invitations.resend': '429 rate_limited',
  // The next part has another offset, and a removed resource is gone.
  'template-uploads.part': '422 validation_failed',
  'template-uploads.delete': '404 not_found',
  // Links are used once.
  'invitations.accept': '400 token_invalid',
  'auth.verify_email': '400 token_invalid',
  'auth.confirm_reset': '400 token_invalid',
  'auth.confirm_email': '400 token_invalid',
  // The first call replaced or ended the session of the repeat's token.
  'auth.mfa_challenge': '401 unauthenticated',
  'auth.logout': '401 unauthenticated',
  'auth.logout_all': '401 unauthenticated',
  'auth.step_up': '401 unauthenticated',
  'auth.change_password': '401 unauthenticated',
  'auth.confirm_totp': '401 unauthenticated',
  'auth.disable_totp': '401 unauthenticated',
}

/** Fields in which two answers of these routes differ, besides OF_ITS_OWN. */
const OWN_NAMES: Record<string, readonly string[]> = {
  'port-tokens.create': ['created_at'],
  'template-uploads.create': ['expires_at'],
  'port-links.create': ['created_at', 'url'],
  'port-callbacks.create': ['created_at', 'url'],
}

for (const route of APP_ROUTES.filter(({ idempotent }) => idempotent)) {
  test(`${route.id} sent twice with one Idempotency-Key has one effect and one answer`, async () => {
    const key = `twice-${route.id}`
    const ids = await sceneOf(w, own, route, key)
    const headers = { 'idempotency-key': key }
    const body = bodyOf(route, key, ids)
    const before = await contentOfTables(w.database.superuser)
    const first = await ask(w, route, ids, { headers, body })
    const between = await contentOfTables(w.database.superuser)
    assert.notDeepEqual(between, before)
    const second = await ask(w, route, ids, { headers, body })
    assert.ok(first.status < 300, said(first))
    assert.deepEqual([second.status, second.body], [first.status, first.body])
    assert.deepEqual([first.headers.get('idempotent-replayed'), second.headers.get('idempotent-replayed')], [null, 'true'])
    assert.deepEqual(await contentOfTables(w.database.superuser), between)
    const other = OTHER_BODIES[route.id]
    const mismatch = other
      ? await ask(w, route, ids, { headers, body: other })
      : await ask(w, route, { ...ids, ...OTHER_IDS(w) }, { headers })
    assert.equal(said(mismatch), '422 idempotency_mismatch')
    assert.deepEqual(await contentOfTables(w.database.superuser), between)
  })
}

for (const route of APP_ROUTES.filter(({ id, method, idempotent }) => method !== 'GET' && !idempotent && !NOT_SOLD.has(id))) {
  test(`${route.id} ignores an Idempotency-Key, and its repeat leaves what the first left`, async () => {
    const ids = await sceneOf(w, own, route, `again-${route.id}`)
    const given = HAS_BODY.test(route.id) || isSignIn(route) ? { body: bodyOf(route, `again-${route.id}`, ids) } : {}
    const first = await ask(w, route, ids, { ...given, headers: { 'idempotency-key': 'not one' } })
    const second = await ask(w, route, ids, given)
    assert.ok(first.status < 300, said(first))
    const once = ONCE[route.id]
    if (once !== undefined) return assert.equal(said(second), once)
    const own_names = OWN_NAMES[route.id] ?? []
    assert.deepEqual([second.status, lasting(second.body, own_names)], [first.status, lasting(first.body, own_names)])
  })
}

/** Tested with a mirror: tests/api/template-sources.test.ts. */
const OF_MIRROR = 'template-packages.list'

for (const route of APP_ROUTES.filter(({ method, id }) => method === 'GET' && id !== OF_MIRROR)) {
  test(`${route.id} read twice is the same, and reading changes nothing`, async () => {
    const before = await contentOfTables(w.database.superuser)
    const first = await ask(w, route, own)
    const second = await ask(w, route, own)
    assert.deepEqual([first.status, second.body], [200, first.body])
    assert.deepEqual(await contentOfTables(w.database.superuser), before)
  })
}

const HAS_BODY = /^(account|organizations|projects|members|invitations|api-keys)\./
const OF_ITS_OWN = new Set(
  'id key_id api_key created_at version token issued_at expires_at updated_at session_token session_expires_at secret otpauth_url recovery_codes'.split(
    ' ',
  ),
)

/** Drops times, tokens with their ids, generated secrets and version numbers. */
function lasting(body: Record<string, unknown> = {}, own_names: readonly string[] = []): unknown {
  return Object.fromEntries(Object.entries(body).filter(([name]) => !OF_ITS_OWN.has(name) && !own_names.includes(name)))
}
