import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { type Client, createClient, type OpenedWorkspace } from '../support/client.ts'
import { INTERNET_ADDRESS, INTERNET_HOST, OTHER_ADDRESS, openInternet } from '../support/internet.ts'
import { startService } from '../support/service.ts'
import { measure } from './harness.ts'
import { BENCH_SETTINGS } from './settings.ts'

const PROXY = `${OTHER_ADDRESS}:3128`
const REQUESTS = 200
const CONNECTIONS = 10

export async function secretlessRows(): Promise<void> {
  const internet = await openInternet()
  const folder = mkdtempSync(path.join(tmpdir(), 'berth-forward-proxy-'))
  const proxy = startProxy(folder, internet.uplink)
  const service = await startService({ settings: { ...BENCH_SETTINGS, uplink: internet.uplink, secrets_ca: internet.ca_file } })
  try {
    const client = createClient(service.base_url, service.api_key)
    const workspace = await openWithSecret(client)
    const row = { row: 0, bar: { at_most: 1.5 } }
    const pair = (script: (more: string) => string) => ({
      reference: () => seconds(client, workspace, script(`-k -x http://${PROXY}`)),
      subject: () => seconds(client, workspace, script('')),
    })
    await measure({ ...row, name: 'secretless', title: `${REQUESTS} requests with a secret, one connection` }, pair(together), { pairs: 7 })
    await measure({ ...row, name: 'secretless-new', title: `${CONNECTIONS} requests with a secret, a connection each` }, pair(apart), {
      pairs: 7,
    })
  } finally {
    await service.stop()
    proxy.kill()
    await internet.close()
    rmSync(folder, { recursive: true, force: true })
  }
}

function startProxy(folder: string, namespace: string): ReturnType<typeof spawn> {
  const binary = path.join(folder, 'forward-proxy')
  const source = path.join(import.meta.dirname, 'forward-proxy.go')
  execFileSync('go', ['build', '-o', binary, source], { env: { ...process.env, CGO_ENABLED: '0', GOFLAGS: '' } })
  return spawn('ip', ['netns', 'exec', namespace, binary, PROXY, `${INTERNET_ADDRESS}:443`], { stdio: 'inherit' })
}

async function openWithSecret(client: Client): Promise<OpenedWorkspace> {
  const { body } = await client.api<{ api_key: { project_id: string } }>('/v1/me')
  const secret = { name: 'TOKEN', value: 'of a benchmark', hosts: [{ host: INTERNET_HOST, bearer: true }] }
  assert.equal((await client.api(`/v1/projects/${body.api_key.project_id}/secrets`, { json: secret })).status, 201)
  const workspace = await client.open('bench-secretless', { secrets: ['TOKEN'] })
  const line = `echo '${INTERNET_ADDRESS} ${INTERNET_HOST}' >> /etc/hosts`
  assert.equal((await client.run(workspace, ['sh', '-c', line], { user: 'root' })).exit.exit_code, 0)
  return workspace
}

const URL = `https://${INTERNET_HOST}/page`
const together = (more: string) => `curl -sS --http1.1 ${more} -o /dev/null '${URL}?[1-${REQUESTS}]'`
const apart = (more: string) => `for i in $(seq ${CONNECTIONS}); do curl -sS --http1.1 ${more} -o /dev/null ${URL} || exit 1; done`

/** By the guest's clock, which excludes the command's overhead. */
async function seconds(client: Client, workspace: OpenedWorkspace, script: string): Promise<number> {
  const timed = `begin=$(date +%s%N); ${script} || exit 1; end=$(date +%s%N); echo $(( (end - begin) / 1000 ))`
  const { exit, stdout, stderr } = await client.run(workspace, ['bash', '-c', timed])
  assert.equal(exit.exit_code, 0, stderr)
  return Number(stdout.trim().split('\n').at(-1)) / 1000
}
