import { after, before, test } from 'node:test'
import { APP_ROUTES } from '../../contract/routes/app/all.ts'
import { world, type World } from '../api/support.ts'
import { fuzz } from './judge.ts'

let w: World
before(async () => {
  w = await world()
})
after(() => w[Symbol.asyncDispose]())

for (const route of APP_ROUTES) {
  test(`${route.id} answers whatever comes with what it declares, and never with 5xx`, async () => {
    const workspace_id = await w.running(`fuzz-${route.id}`)
    const suspended = await w.post(`/v1/workspaces/${workspace_id}/suspend`)
    await w.cell.succeed(suspended.body.id)
    const ids = { workspace_id, operation_id: suspended.body.id, organization_id: w.a.organization_id, project_id: w.a.project_id }
    await fuzz(route, ids, ({ method, path, body, headers }, signal) =>
      fetch(`${w.base}${path}`, {
        method,
        headers: { authorization: `Bearer ${w.a.key}`, ...headers },
        signal,
        ...(body === undefined ? {} : { body }),
      }),
    )
  })
}
