// Needs its own installation: the mail server is a setting.
import assert from 'node:assert/strict'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { Secret, TOTP } from 'otpauth'
import { after, before, test } from 'node:test'
import { createClient } from '../support/client.ts'
import { openMailbox, type Mailbox } from '../support/mailbox.ts'
import { until } from '../support/processes.ts'
import { runPage } from '../support/readme.ts'
import { startService, type Service } from '../support/service.ts'
import { patience } from '../support/patience.ts'

const PASSWORD = 'a long enough password'

let box: Mailbox
let service: Service
before(async () => {
  box = await openMailbox()
  service = await startService({ settings: { smtp_url: box.url, mail_from: 'Berth <berth@mail.test>', registration: 'open' } })
})
after(async () => {
  await service.stop()
  await box[Symbol.asyncDispose]()
})

async function post<Body>(path: string, json: object, session = 'none'): Promise<Body> {
  const { status, body } = await createClient(service.base_url, session).api<Body>(path, { json })
  assert.ok(status < 300, `${path}: ${status} ${JSON.stringify(body)}`)
  return body
}

test('the first owner invites a colleague, who registers, makes a key of their own and runs a command with it', async () => {
  const ada = 'owner@example.com'
  await service.admin('person', 'create', '--email', ada, '--organization', 'default', '--role', 'owner', '--name', 'Ada')
  const link = await service.admin('person', 'link', '--email', ada)
  const token = /#token=(\S+)/.exec(link)?.[1]
  assert.ok(link.includes(service.base_url))
  await post('/v1/auth/password/reset/confirm', { token, new_password: PASSWORD })
  const owner = await post<{ session_token: string }>('/v1/auth/login', { email: ada, password: PASSWORD })
  const me = await createClient(service.base_url, owner.session_token).api<{ memberships: { organization_id: string }[] }>('/v1/me')
  const organization = `/v1/organizations/${me.body.memberships[0]?.organization_id}`

  const charles = 'colleague@example.com'
  const project = await post<{ id: string }>(`${organization}/projects`, { name: 'Numbers' }, owner.session_token)
  await post(`${organization}/invitations`, { email: charles, role: 'admin' }, owner.session_token)
  const invitation_token = await box.tokenTo(charles, /invited/)
  await post('/v1/auth/register', { email: charles, password: PASSWORD, display_name: 'Charles', invitation_token })
  const { session_token } = await post<{ session_token: string }>('/v1/auth/login', { email: charles, password: PASSWORD })
  await post('/v1/invitations/accept', { token: invitation_token }, session_token)

  const key = await post<{ api_key: string }>(`/v1/projects/${project.id}/api-keys`, { tool_permissions: ['exec'] }, session_token)
  const client = createClient(service.base_url, key.api_key)
  const workspace = await client.open('of-charles')
  assert.equal((await client.run(workspace, ['sh', '-c', 'echo $((6 * 7))'])).stdout.trim(), '42')
})

async function serveReader(): Promise<AsyncDisposable & { url: string }> {
  const answers = {
    async token(query: URLSearchParams) {
      const [to, subject, nth] = [query.get('to'), new RegExp(query.get('subject') ?? ''), Number(query.get('nth') ?? 1)]
      const mails = () =>
        box.mails.filter((mail) => mail.to?.some(({ address }) => address === to) === true && subject.test(mail.subject ?? ''))
      await until(`mail ${nth} to ${to} arrives`, 60_000, async () => mails().length >= nth)
      return /#token=([A-Za-z0-9_-]+)/.exec(mails()[nth - 1]?.text ?? '')?.[1] ?? ''
    },
    // A code is valid once, even within its 30 seconds; `ahead` returns the next one early.
    code: async (query: URLSearchParams) =>
      new TOTP({ secret: Secret.fromBase32(query.get('secret') ?? '') }).generate({
        timestamp: Date.now() + Number(query.get('ahead') ?? 0) * 30_000,
      }),
    // Ages the mails: two of one invitation must be a minute apart.
    later: async () => {
      await service.query("update mails set created_at = created_at - interval '2 minutes' where invitation_id is not null")
      return ''
    },
  }
  const server = http.createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://reader')
    answers[pathname.slice(1) as keyof typeof answers](searchParams).then(
      (text) => response.end(text),
      (error: unknown) => response.writeHead(500).end(String(error)),
    )
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

test('all commands of docs/guides/people.md succeed', { timeout: patience(240_000) }, async () => {
  await using reader = await serveReader()
  const printed = await runPage('people.md', {
    env: { URL: service.base_url, SESSION: '', READER: reader.url },
    begin: 'reader() { command curl -sS -f "$READER/$1"; }',
    before: {
      'post verify-email': "TOKEN=$(reader 'token?to=ada@example.com&subject=Verify')",
      'CONFIRMED=': 'CODE=$(reader "code?secret=$SECRET")',
      'SESSION=$(post mfa/challenge "{\\"code': 'NEXT_CODE=$(reader "code?secret=$SECRET&ahead=1")',
      'api -X DELETE "$URL/v1/auth/sessions': `post login '{"email": "ada@example.com", "password": "a longer password still"}' > login.json
OTHER_SESSION_ID=$(api "$URL/v1/auth/sessions" | field id)`,
      'post password/reset/confirm': "RESET_TOKEN=$(reader 'token?to=ada@example.com&subject=Another%20password')",
      'SESSION=$(post mfa/challenge "{\\"recovery_code':
        'RECOVERY_CODE=$(echo "$CONFIRMED" | grep -oE "[A-Z2-9]{4}(-[A-Z2-9]{4}){3}" | head -n 1)',
      'api -X POST "$URL/v1/organizations/$ORG/invitations': 'reader later',
      'ADA=$SESSION': "INVITATION_TOKEN=$(reader 'token?to=charles@example.com&subject=invited&nth=2')",
    },
  })
  assert.match(printed, /"kind": "organization"/) // a line of the manifest
})

test('all commands of docs/guides/usage.md succeed', { timeout: patience(240_000) }, async () => {
  const grace = 'grace@example.com'
  await service.admin('person', 'create', '--email', grace, '--organization', 'default', '--role', 'owner', '--name', 'Grace')
  await service.admin('organization', 'create', 'acme')
  const session = /sfu_\S+/.exec(await service.admin('session', 'create', '--email', grace))?.[0] ?? ''
  const client = createClient(service.base_url, service.api_key)
  const me = await client.api<{ api_key: { organization_id: string } }>('/v1/me')
  const workspace = await client.open('counted')
  const admin = path.resolve(import.meta.dirname, '../../tools/admin.mjs')
  const printed = await runPage('usage.md', {
    env: {
      BERTH: service.base_url,
      KEY: service.api_key,
      SESSION: session,
      ORGANIZATION: me.body.api_key.organization_id,
      WORKSPACE: `${service.base_url}/v1/workspaces/${workspace.id}`,
    },
    begin: `berth() { curl -sS -H "Authorization: Bearer $KEY" "$@"; }
npm() { '${process.execPath}' '${admin}' --data-dir '${service.data_dir}' "\${@:4}"; }`,
    before: { 'curl -sS -X PUT': 'npm run admin -- organization plan default team' },
  })
  assert.match(printed, /"spend_cap_minor":2000/)
})
