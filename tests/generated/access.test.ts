// Every kind of caller calls every route, and gets the answer of the contract.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { ROLES, type Access, type PrincipalAccess, type Role } from '../../contract/access.ts'
import type { AppRoute } from '../../contract/route.ts'
import { APP_ROUTES } from '../../contract/routes/app/all.ts'
import { seeder, world, type World } from '../api/support.ts'
import { isSignIn, signInBody, signInScene } from './auth-scenes.ts'
import { ask, ownIds, said, type Ids } from './app-world.ts'
import { contentOfTables } from './tables.ts'

type Kind = { kind: 'none' | 'tool_token' } | { kind: 'key'; tools: boolean } | { kind: 'person'; role: Role } | { kind: 'stranger' }

let w: World
let own: Ids
let callers: { name: string; is: Kind; as: string | null }[]
before(async () => {
  w = await world()
  own = await ownIds(w)
  const seeds = seeder(w.database, w.clock, w.ids)
  const { organization_id, project_id } = w.a
  const minted = await w.post(`/v1/workspaces/${own['workspace_id']}/tool-tokens`)
  callers = [
    { name: 'nobody', is: { kind: 'none' }, as: null },
    { name: 'a tool token', is: { kind: 'tool_token' }, as: minted.body.token },
    { name: 'a key', is: { kind: 'key', tools: true }, as: w.a.key },
    { name: 'a key without tools', is: { kind: 'key', tools: false }, as: (await seeds.key(organization_id, project_id, [])).key },
    { name: 'a stranger', is: { kind: 'stranger' }, as: (await seeds.person(w.b.organization_id, 'owner')).token },
  ]
  for (const role of ROLES) {
    callers.push({ name: `a person who is ${role}`, is: { kind: 'person', role }, as: (await seeds.person(organization_id, role)).token })
  }
})
after(() => w[Symbol.asyncDispose]())

/** @returns null: the caller is allowed */
function refusalOf(access: Access, is: Kind): string | null {
  if (access.kind === 'anyone') return null
  if (access.kind === 'tool_token' || is.kind === 'none' || is.kind === 'tool_token') return '401 unauthenticated'
  switch (is.kind) {
    case 'key':
      if (access.keys === 'unknown') return '401 unauthenticated'
      if (access.keys === 'with_tool' && !is.tools) return forbidden(access)
      return access.keys === 'forbidden' ? '403 forbidden' : null
    case 'stranger':
      if (access.within !== 'self') return '404 not_found'
      return access.step_up === true ? '403 step_up_required' : null
    case 'person':
      if (access.within !== 'self' && !access.roles.includes(is.role)) return forbidden(access)
      return access.step_up === true ? '403 step_up_required' : null
  }
}

const forbidden = ({ refused_as }: PrincipalAccess) => `403 forbidden${refused_as === undefined ? '' : `/${refused_as}`}`

const bodyOf = (route: AppRoute) =>
  /^(workspaces\.open$|template-uploads\.create$|template-builds\.create|drafts\.create|test-instances\.)/.test(route.id)
    ? { body: { project_id: w.a.project_id } }
    : {}

/** Removes the upload that other routes name. */
const LAST = 'template-uploads.delete'

for (const route of APP_ROUTES.toSorted((a, b) => Number(a.id === LAST) - Number(b.id === LAST))) {
  test(`${route.id} is for whom it declares, and nobody else changes anything with it`, async () => {
    if (isSignIn(route)) return signInAccess(route)
    const before = await contentOfTables(w.database.superuser)
    const refused = callers.filter(({ is }) => refusalOf(route.access, is) !== null)
    for (const { name, is, as } of refused) {
      assert.equal(said(await ask(w, route, own, { as, ...bodyOf(route) })), refusalOf(route.access, is), name)
    }
    assert.deepEqual(await contentOfTables(w.database.superuser), before)
    const allowed = callers.filter(({ is }) => refusalOf(route.access, is) === null)
    for (const { name, as } of allowed) {
      // Earlier calls may have changed the state. A refusal for the state is fine, one for the caller is not.
      assert.doesNotMatch(said(await ask(w, route, own, { as, ...bodyOf(route) })), /^40[13]/, name)
    }
    assert.equal(refused.length + allowed.length, callers.length)
  })
}

/** Each caller gets a new session, because these routes change sessions. */
async function signInAccess(route: AppRoute): Promise<void> {
  const before = await contentOfTables(w.database.superuser)
  for (const { name, is, as } of callers) {
    const expected = refusalOf(route.access, is)
    if (expected !== null) assert.equal(said(await ask(w, route, own, { as })), expected, name)
  }
  assert.deepEqual(await contentOfTables(w.database.superuser), before)
  for (const role of ROLES) {
    const ids = { ...own, ...(await signInScene(w, route, role)) }
    assert.match(said(await ask(w, route, ids, { body: signInBody(route, ids) })), /^20/, role)
  }
}
