// `gate-server.ts DATABASE_URL API_KEY_ID TOKENS` serves a gateway route with and without the check of tool tokens.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import pino from 'pino'
import { filesStat } from '../../contract/routes/cell/files.ts'
import { TOOL_TOKEN_TYPE } from '../../contract/tool-token.ts'
import { openApiKeys } from '../../service/cell/admission/api-keys.ts'
import { createAdmissionControl } from '../../service/cell/admission/gate.ts'
import { openPeople } from '../../service/cell/admission/people.ts'
import { openVerificationKeys } from '../../service/cell/admission/keys.ts'
import type { CallLease } from '../../service/cell/admission/call-lease.ts'
import { createAgentLinks } from '../../service/cell/host/agent.ts'
import { openDatabase } from '../../service/db/database.ts'
import { cellChannels, openListener } from '../../service/db/listen.ts'
import type { ToolCaller } from '../../service/http/call.ts'
import { bind } from '../support/bind.ts'
import { createServer } from '../../service/http/pipeline.ts'
import { systemClock } from '../../service/lib/clock.ts'
import { createIds } from '../../service/lib/ids.ts'
import { FakeTable, runningEntry } from '../gateway/support/fake-table.ts'
import { serveUntilTold } from './child.ts'

const [url = '', api_key_id = '', count = '1000'] = process.argv.slice(2)
const ISSUER = 'http://api.bench'
const AUDIENCE = 'http://cell.bench'
const KID = `bench-${randomUUID()}`
const database = { url, role: null, connections_max: 4, application_name: 'berth-bench' } as const
const db = openDatabase(database)
const { publicKey, privateKey } = await generateKeyPair('ES256', { extractable: true })
const public_jwk = JSON.stringify(await exportJWK(publicKey))
await db.insertInto('signing_keys').values({ kid: KID, public_jwk, created_at: systemClock.now(), retired_at: null }).execute()

const ids = createIds(systemClock)
const [workspace_id, cell_id] = [ids.next(), ids.next()]
const listener = await openListener(database, cellChannels(cell_id))
const table = new FakeTable()
table.touch = () => undefined // a touch would keep every workspace awake
table.entries.set(workspace_id, runningEntry(workspace_id, cell_id, '127.0.0.1:1').entry)
const keys = await openVerificationKeys(db, listener, systemClock)
const api_keys = openApiKeys(db, listener)
const people = openPeople(db, listener, systemClock)
const gate = createAdmissionControl({
  uses: { note: () => undefined },
  table,
  keys,
  api_keys,
  people,
  agents: createAgentLinks(),
  disks: {
    of: () => assert.fail('no workspace of the bench sleeps'),
    beside: () => ({ searchFiles: () => assert.fail(), readFacts: () => assert.fail() }),
    close: () => undefined,
  },
  waking: { ready: ({ machine }) => machine, wake: () => Promise.resolve(), hint: () => 'resident' },
  cancelSuspend: () => assert.fail('no suspend of the bench is asked for'),
  clock: systemClock,
  cell_id,
  issuer: ISSUER,
  audience: AUDIENCE,
})

const iat = Math.floor(systemClock.now().getTime() / 1000)
const claims = { iss: ISSUER, aud: AUDIENCE, sub: api_key_id, pty: 'api_key', org: ids.next(), prj: ids.next(), ws: workspace_id, epoch: 3 }
const mint = () =>
  new SignJWT({ ...claims, tools: ['files'], sid: ids.next(), iat, exp: iat + 900, jti: ids.next() })
    .setProtectedHeader({ alg: 'ES256', typ: TOOL_TOKEN_TYPE, kid: KID })
    .sign(privateKey)
const caller: ToolCaller = {
  type: 'tool_token',
  principal_type: 'api_key',
  principal_id: api_key_id,
  workspace_id,
  ownership_epoch: 3,
  agent_session_id: ids.next(),
  person_session_id: null,
  tools: ['files'],
  issued_at_seconds: iat,
  expires_at_seconds: iat + 900,
}

const body = { path: '/a', name: 'a', type: 'file', size: 1, mode: '0644', modified_at: systemClock.now().toISOString() }
const serverOf = (authenticate: Parameters<typeof createServer<object, CallLease>>[0]['authenticate']) =>
  createServer<object, CallLease>({
    surface: 'cell',
    routes: [bind(filesStat, async () => ({ status: 200, body }))],
    deps: {},
    clock: systemClock,
    ids,
    logger: pino({ level: 'silent' }),
    authenticate,
    admit: (arrival, who) => gate.admit(arrival, who),
  })
const subject = serverOf((arrival) => gate.authenticate(arrival))
const reference = serverOf(async () => caller)
const where = { host: '127.0.0.1', port: 0 }
const path = `/v1/workspaces/${workspace_id}/files/stat?path=/a`
await serveUntilTold({
  reference: `${await reference.listen(where)}${path}`,
  subject: `${await subject.listen(where)}${path}`,
  tokens: await Promise.all(Array.from({ length: Number(count) }, mint)),
})
await db.deleteFrom('signing_keys').where('kid', '=', KID).execute()
process.exit(0)
