// Needs its own installation, whose machines reach a fake internet.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { createReadStream, globSync, readdirSync, readFileSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { type Client, createClient, type OpenedWorkspace } from '../support/client.ts'
import { type Internet, INTERNET_ADDRESS, INTERNET_HOST, openInternet, OTHER_ADDRESS, OTHER_HOST } from '../support/internet.ts'
import { isRunning, until } from '../support/processes.ts'
import { type Service, startService } from '../support/service.ts'
import { patience } from '../support/patience.ts'

const ID = randomUUID()
/** Built at use, because the test also searches its own process for the value. */
const value = (word: string) => `sent-${ID}-${word}`
const CONTROL = `control-${ID}`
const PLACEHOLDER = /^berth-secret-[0-9a-f]{40}$/

let internet: Internet
let service: Service
let client: Client
let workspace: OpenedWorkspace
let secret_id: string

before(async () => {
  internet = await openInternet()
  service = await startService({ settings: { uplink: internet.uplink, secrets_ca: internet.ca_file } })
  client = createClient(service.base_url, service.api_key)
  const { body } = await client.api<{ api_key: { project_id: string } }>('/v1/me')
  const secret = { name: 'TOKEN', value: value('one'), hosts: [{ host: INTERNET_HOST }] }
  const created = await client.api<{ id: string }>(`/v1/projects/${body.api_key.project_id}/secrets`, { json: secret })
  assert.equal(created.status, 201, JSON.stringify(created.body))
  secret_id = created.body.id
  await client.api(`/v1/projects/${body.api_key.project_id}/secrets`, { json: { name: 'CONTROL', value: CONTROL } })
  workspace = await client.open('secretless', { secrets: ['TOKEN', 'CONTROL'] })
  await named(workspace)
})
after(async () => {
  await service.stop()
  await internet.close()
})

/** Uses /etc/hosts, because the guest has no name server. */
async function named(at: OpenedWorkspace): Promise<void> {
  const line = `echo '${INTERNET_ADDRESS} ${INTERNET_HOST}\n${OTHER_ADDRESS} ${OTHER_HOST}' >> /etc/hosts`
  assert.equal((await client.run(at, ['sh', '-c', line], { user: 'root' })).exit.exit_code, 0)
}

const sh = (at: OpenedWorkspace, script: string) => client.run(at, ['sh', '-c', script])
const sent = async (name: string) => (await internet.visited(({ url }) => url.startsWith(`/page?${name}`))).authorization
const curl = (name: string, host = INTERNET_HOST, more = '') =>
  `curl -sS --max-time 30 ${more} -o /dev/null -w '%{http_code}' -H "Authorization: Bearer $TOKEN" 'https://${host}/page?${name}'`

test('curl, Python and Node send the placeholder that they have, and the host gets the value', { timeout: patience(300_000) }, async () => {
  const { stdout } = await sh(workspace, 'printf %s "$TOKEN"')
  assert.match(stdout, PLACEHOLDER)
  const programs: Record<string, string> = {
    curl: curl('curl'),
    python3: `python3 -c 'import os,urllib.request as u; u.urlopen(u.Request("https://${INTERNET_HOST}/page?python3", headers={"Authorization": "Bearer "+os.environ["TOKEN"]})).read()'`,
    node: `node -e 'require("https").get("https://${INTERNET_HOST}/page?node", {headers: {authorization: "Bearer " + process.env.TOKEN}}, (r) => r.resume())'`,
  }
  const tried: string[] = []
  for (const [name, script] of Object.entries(programs)) {
    if ((await sh(workspace, `command -v ${name}`)).exit.exit_code !== 0) continue // not in the template
    tried.push(name)
    const { exit, stderr } = await sh(workspace, script)
    assert.equal(exit.exit_code, 0, `${name}: ${stderr}`)
    assert.equal(await sent(name), `Bearer ${value('one')}`, name)
  }
  assert.ok(tried.includes('curl') && tried.length >= 2, `tried: ${tried.join(' ')}`)
})

test(
  'a file-first command has the placeholder, the host gets the value, and a policy change holds for the running command',
  { timeout: patience(300_000) },
  async () => {
    const files = await client.open('secretless-files', { mode: 'file_first', secrets: ['TOKEN'], caps: { memory_mib: 256 } })
    const named = `--resolve ${INTERNET_HOST}:443:${INTERNET_ADDRESS}`
    const execute = (execution_id: string, script: string) =>
      client.tool<{ stdout: string; state: string }>(files, '/exec', { json: { execution_id, argv: ['sh', '-c', script] } })
    const { body } = await execute('on-files-1', `printf '%s ' "$TOKEN"; ${curl('files', INTERNET_HOST, named)}`)
    const [placeholder = '', status] = Buffer.from(body.stdout, 'base64').toString().split(' ')
    assert.match(placeholder, PLACEHOLDER, JSON.stringify(body))
    assert.deepEqual([status, await sent('files')], ['200', `Bearer ${value('one')}`])
    const closed = execute(
      'on-files-2',
      `while ${curl('until', INTERNET_HOST, `--connect-timeout 5 ${named}`)}; do sleep 0.2; done; echo closed`,
    )
    assert.equal(await sent('until'), `Bearer ${value('one')}`)
    await client.api(`/v1/workspaces/${files.id}/egress-policy`, { method: 'PUT', json: { mode: 'deny_all' } })
    assert.match(Buffer.from((await closed).body.stdout, 'base64').toString(), /closed\n$/)
    await client.operate(`/v1/workspaces/${files.id}`, { method: 'DELETE' })
  },
)

test('a host that is not bound gets the placeholder over its own TLS', { timeout: patience(300_000) }, async () => {
  const untrusted = await sh(workspace, curl('untrusted', OTHER_HOST))
  assert.equal(untrusted.exit.exit_code, 60, untrusted.stderr) // the certificate is not signed by the workspace's authority
  await sh(workspace, curl('other', OTHER_HOST, '-k'))
  assert.match((await sent('other')) ?? '', /^Bearer berth-secret-/)
})

test('running commands use a rotated value', { timeout: patience(300_000) }, async () => {
  await client.tool(workspace, '/exec', {
    json: {
      session_id: 'loop',
      argv: [
        'sh',
        '-c',
        `while [ ! -e /tmp/stop ]; do curl -sS -o /dev/null -H "Authorization: Bearer $TOKEN" https://${INTERNET_HOST}/page?loop; sleep 0.2; done`,
      ],
    },
  })
  await internet.visited(({ url, authorization }) => url === '/page?loop' && authorization === `Bearer ${value('one')}`)
  assert.equal((await client.api(`/v1/secrets/${secret_id}/versions`, { json: { value: value('two') } })).status, 201)
  await internet.visited(({ url, authorization }) => url === '/page?loop' && authorization === `Bearer ${value('two')}`)
  await sh(workspace, 'touch /tmp/stop')
})

test('requests with a secret obey the egress policy', { timeout: patience(300_000) }, async () => {
  const policy = `/v1/workspaces/${workspace.id}/egress-policy`
  const put = async (json: object) => {
    const { body } = await client.api<{ version: number }>(policy, { method: 'PUT', json })
    await until('the policy is in force', 60_000, async () => {
      const { version, enforcement } = (await client.api<{ version: number; enforcement: { state: string } }>(policy)).body
      return version === body.version && enforcement.state === 'enforced'
    })
  }
  await put({ mode: 'allowlist', cidrs: [`${OTHER_ADDRESS}/32`] })
  assert.equal((await sh(workspace, curl('closed'))).exit.exit_code, 7)
  await put({ mode: 'allowlist', cidrs: [`${INTERNET_ADDRESS}/32`] })
  assert.equal((await sh(workspace, curl('allowed'))).stdout, '200')
  assert.equal(await sent('allowed'), `Bearer ${value('two')}`)
  await client.api(policy, { method: 'DELETE' })
})

test('a killed proxy is restarted, and no request is sent without its value in between', { timeout: patience(300_000) }, async () => {
  const before = proxies()
  assert.equal(before.length, 1)
  process.kill(before[0] ?? 0, 'SIGKILL')
  for (let at = 0; at < 5; at++) await sh(workspace, curl(`killed-${at}`)) // one request may meet the dying proxy
  await until('another one serves', 60_000, async () => (await sh(workspace, curl('again'))).stdout === '200')
  assert.ok(!isRunning(before[0] ?? 0) && proxies().length === 1)
  const all = internet.visits.filter(({ url }) => url.startsWith('/page?killed') || url === '/page?again')
  assert.ok(all.length > 0 && all.every(({ authorization }) => authorization === `Bearer ${value('two')}`))
})

test('the process that holds the values has no privileges', () => {
  const [pid = 0] = proxies()
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  assert.match(status, /^CapPrm:\t0{16}$/m)
  assert.match(status, /^NoNewPrivs:\t1$/m)
  assert.match(status, /^Seccomp:\t2$/m)
})

test('running commands keep using the secret after suspend and resume and in a fork', { timeout: patience(300_000) }, async () => {
  const loop = (name: string) =>
    `while [ ! -e /tmp/${name} ]; do curl -sS --max-time 10 -o /dev/null -H "Authorization: Bearer $TOKEN" "https://${INTERNET_HOST}/page?on-$(cat /tmp/where)"; sleep 0.3; done`
  const placeholder = (await sh(workspace, 'echo first > /tmp/where; printf %s "$TOKEN"')).stdout
  await client.tool(workspace, '/exec', { json: { session_id: 'on', argv: ['sh', '-c', loop('end')] } })
  const served = (where: string) =>
    internet.visited(({ url, authorization }) => url === `/page?on-${where}` && authorization === `Bearer ${value('two')}`)
  await served('first')
  await client.operate(`/v1/workspaces/${workspace.id}/suspend`)
  workspace = await client.open('secretless')
  await sh(workspace, 'echo resumed > /tmp/where')
  await served('resumed')
  await client.operate(`/v1/workspaces/${workspace.id}/fork`, { json: { key: 'secretless-fork' } })
  const fork = await client.open('secretless-fork')
  await sh(fork, 'echo forked > /tmp/where')
  await served('forked')
  for (const each of [fork, workspace]) assert.equal((await sh(each, 'touch /tmp/end && printf %s "$TOKEN"')).stdout, placeholder)
})

test(
  'no environment, disk or memory of the guest and no file or process of the host contains the value',
  { timeout: patience(600_000) },
  async () => {
    const either = value('') // common prefix of both values
    const search = `grep -rlaF -e '${either}' /home /etc /tmp /var /root /usr/local /run /proc/[0-9]*/environ 2>/dev/null; true`
    const found = await client.run(workspace, ['sh', '-c', `echo "${either.slice(0, 9)}" > /dev/null; ${search}`], { user: 'root' })
    const own = found.stdout.split('\n').filter((line) => line !== '' && !/^\/proc\/(self|\d+)\//.test(line))
    assert.deepEqual(own, [])
    // This command uses both values while the machine is saved.
    await client.tool(workspace, '/exec', {
      json: {
        session_id: 'held',
        argv: [
          'sh',
          '-c',
          `while :; do curl -sS -o /dev/null -H "Authorization: Bearer $TOKEN" https://${INTERNET_HOST}/page?held; sleep 0.1; done`,
        ],
      },
    })
    await internet.visited(({ url }) => url === '/page?held')
    await client.operate(`/v1/workspaces/${workspace.id}/suspend`)
    await service.query('checkpoint') // writes committed rows to files
    const kept = ['pg', 'logs', 'keys'].map((name) => path.join(service.data_dir, name))
    const saved = path.join(service.pool_path())
    // Searches for complete values: the record of the search command above contains their prefix.
    const withValue = await filesWith(value('two'), [...kept, path.join(service.run_dir, 'config'), saved])
    assert.deepEqual(withValue, [])
    assert.deepEqual(await filesWith(value('one'), [...kept, saved]), [])
    assert.deepEqual(processesWith(value('two')), [])
    assert.notDeepEqual(await filesWith(CONTROL, [saved]), [], 'the search finds a value that a command has')
  },
)

function proxies(): number[] {
  const title = `berth-${service.instance}-secrets\0`
  const files = globSync('/proc/[0-9]*/cmdline')
  return files.filter((file) => contentOf(file).startsWith(title)).map((file) => Number(file.split('/')[2]))
}

function contentOf(file: string): string {
  try {
    return readFileSync(file, 'latin1')
  } catch {
    return '' // it ended while the list was being read
  }
}

function processesWith(text: string): string[] {
  const files = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => [`/proc/${pid}/environ`, `/proc/${pid}/cmdline`])
  return files.filter((file) => contentOf(file).includes(text))
}

async function filesWith(text: string, roots: string[]): Promise<string[]> {
  const found: string[] = []
  for (const root of roots) {
    const entries = await readdir(root, { recursive: true, withFileTypes: true })
    for (const entry of entries.filter((one) => one.isFile())) {
      const file = path.join(entry.parentPath, entry.name)
      if (await contains(file, text)) found.push(file)
    }
  }
  return found
}

async function contains(file: string, text: string): Promise<boolean> {
  let before = ''
  try {
    for await (const chunk of createReadStream(file, { encoding: 'latin1', highWaterMark: 1 << 20 })) {
      const seen = before + String(chunk)
      if (seen.includes(text)) return true
      before = seen.slice(-text.length)
    }
  } catch {
    return false // the file vanished during the read
  }
  return false
}
