import assert from 'node:assert/strict'
import type { AppRoute } from '../../contract/route.ts'
import { seeder, type World } from '../api/support.ts'
import type { Ids } from './app-world.ts'

const suspended = async (w: World, key: string) => {
  const id = await w.running(key)
  await w.cell.succeed((await w.post(`/v1/workspaces/${id}/suspend`)).body.id)
  return id
}
const CHECKPOINT = '01920000-0000-7000-8000-00000000c0de'
/** A workspace in which the mutation has something to do, by route. A route that is new must say its own. */
const SCENES: Record<string, (w: World, key: string) => Promise<string | undefined>> = {
  'workspaces.open': async () => undefined,
  'workspaces.delete': (w, key) => w.running(key),
  'workspaces.suspend': (w, key) => w.running(key),
  'workspaces.resume': suspended,
  'workspaces.fork': (w, key) => w.running(key),
  'workspaces.snapshot': (w, key) => w.running(key),
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
  'egress.project_put': async () => undefined,
  'egress.workspace_put': (w, key) => w.running(key),
  'egress.workspace_delete': async (w, key) => {
    const id = await w.running(key)
    await w.call('PUT', `/v1/workspaces/${id}/egress-policy`, { body: { mode: 'deny_all' } })
    return id
  },
  'tool-tokens.create': (w, key) => w.running(key),
}
/** Bodies that do something: the smallest that the schema takes are not enough. */
const BODIES: Record<string, (key: string) => object> = {
  'workspaces.open': (key) => ({ key: `${key}-new` }),
  'workspaces.fork': (key) => ({ key: `${key}-new` }),
  'workspaces.restore': () => ({ checkpoint_id: CHECKPOINT }),
  'workspaces.reset': () => ({ confirm_destructive: true }),
}
/** The body that has its effect in the scene. */
export const bodyOf = (route: AppRoute, key: string): object => BODIES[route.id]?.(key) ?? {}

/** Makes what the route has an effect on. @returns the ids of its path. */
export async function sceneOf(w: World, own: Ids, route: AppRoute, key: string): Promise<Ids> {
  const scene = SCENES[route.id]
  assert.ok(scene, `say in SCENES where ${route.id} has something to do`)
  const workspace_id = await scene(w, key)
  return workspace_id === undefined ? own : { ...own, workspace_id }
}
