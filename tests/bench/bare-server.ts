// Reference: `bare-server.ts DATABASE_URL` serves the same rows with the same driver, and nothing else.
import Fastify from 'fastify'
import { generateKeyPair, SignJWT } from 'jose'
import pg from 'pg'
import { OPERATION_COLUMNS } from '../../service/api/workspaces/operations/view.ts'
import { WORKSPACE_TEXT } from '../../service/api/workspaces/store.ts'
import { serveUntilTold } from './child.ts'

const pool = new pg.Pool({ connectionString: process.argv[2] ?? '', options: '-c role=berth_api', max: 20 })
const { privateKey } = await generateKeyPair('ES256')
const app = Fastify({ logger: false })
const first = async (name: string, text: string, values: unknown[]) =>
  (await pool.query({ name, text, values })).rows[0] as Record<string, unknown>
const workspace = (id: string) => first('workspace', `${WORKSPACE_TEXT} where w.id = $1`, [id])

app.get<{ Params: { id: string } }>('/workspaces/:id', (request) => workspace(request.params.id))
app.get<{ Params: { id: string } }>('/operations/:id', (request) =>
  first('operation', `select ${OPERATION_COLUMNS.join(', ')} from operations where id = $1`, [request.params.id]),
)
app.get<{ Params: { project_id: string } }>('/projects/:project_id/workspaces', async (request) => {
  const where = 'w.project_id = $1 and w.lifetime = $2 and w.purpose = $3 and (w.deleted_at is null) = $4'
  const text = `${WORKSPACE_TEXT} where ${where} order by w.id desc limit $5`
  const values = [request.params.project_id, 'persistent', 'standard', true, 51]
  const rows = (await pool.query({ name: 'workspaces', text, values })).rows as { id: string }[]
  return { data: rows.slice(0, 50), next_cursor: rows[50]?.id ?? null }
})
app.post<{ Params: { id: string } }>('/reopen/:id', async (request) => {
  const row = await workspace(request.params.id)
  await pool.query({ name: 'session', text: 'select id from agent_sessions where workspace_id = $1 limit 1', values: [row['id']] })
  await pool.query({ name: 'bucket', text: 'select tokens from rate_buckets limit 1' })
  const token = await new SignJWT({ ws: row['id'] })
    .setProtectedHeader({ alg: 'ES256', kid: 'bench' })
    .setIssuedAt()
    .setExpirationTime('15m')
    .sign(privateKey)
  return { workspace: row, tool_token: { token } }
})

await serveUntilTold({ url: await app.listen({ host: '127.0.0.1', port: 0 }) })
await app.close()
await pool.end()
