import { after, before, test } from 'node:test'
import { TOOLS } from '../../contract/route.ts'
import { CELL_ROUTES } from '../../contract/routes/cell/all.ts'
import { openBench, type Bench } from '../gateway/support/gateway.ts'
import { fuzz } from './judge.ts'

let bench: Bench
before(async () => {
  bench = await openBench()
  const keys = bench.database.superuser.updateTable('api_keys').where('id', '=', bench.api_key_id)
  await keys.set({ tool_permissions: [...TOOLS] }).execute()
})
after(() => bench[Symbol.asyncDispose]())

/** The scripted agent plays these, and answers 404 to all others, also archives. */
const PLAYED = /^(exec|files)\.(?!tar)/

for (const route of CELL_ROUTES.filter(({ websocket }) => websocket === undefined)) {
  test(`${route.id} answers whatever comes with what it declares, and never with 5xx`, async () => {
    const token = await bench.token({ tools: [...TOOLS] })
    bench.agent.script = PLAYED.test(route.id)
      ? null
      : (request, response) => {
          request.resume()
          response.writeHead(404, { 'content-type': 'application/json' }).end('{"code":"not_found","message":"There is none"}')
        }
    await fuzz(route, { workspace_id: bench.workspace_id }, ({ method, path, body, headers }, signal) =>
      fetch(`${bench.gateway.address}${path}`, {
        method,
        headers: { authorization: `Bearer ${token}`, ...headers },
        signal,
        ...(body === undefined ? {} : { body }),
      }),
    )
  })
}
