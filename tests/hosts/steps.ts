import assert from 'node:assert/strict'
import { type ExecFileOptionsWithStringEncoding, execFile, execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { promisify } from 'node:util'
import { type Client, createClient, type OpenedWorkspace } from '../support/client.ts'
import { readTour } from '../support/readme.ts'
import { fillCache, makeImage, printed } from './container.ts'
import { OUTSIDE } from './outside.ts'

export interface Notes {
  key?: string
  suspended?: string
}

interface At {
  notes: Notes
  tests: string
}

export const RESTART = 'restart'
/** Steps on which no later step depends. */
export const BY_THEMSELVES = ['go', 'doctor', 'tour', 'reach', 'docker-reloads', 'firewalld-reloads', 'clean', 'container']

const ROOT = path.resolve(import.meta.dirname, '../..')
const API = 'http://127.0.0.1:8080'
const CACHE = '/var/cache/berth'
const MINUTE = 60_000
/** Runs only with cgroup v1. */
const SKIPPED = /TestKillSparesTheThreadThatSpawnsIntoTheGroup/
const execute = promisify(execFile)

async function run(argv: string[], options: Partial<ExecFileOptionsWithStringEncoding> = {}): Promise<string> {
  const [program = '', ...args] = argv
  try {
    const { stdout } = await execute(program, args, { cwd: ROOT, timeout: 30 * MINUTE, maxBuffer: 1 << 28, encoding: 'utf8', ...options })
    return stdout
  } catch (error) {
    const { stdout = '', stderr = '', message } = error as Error & { stdout?: string; stderr?: string }
    throw new Error(`${argv.join(' ')}: ${message.split('\n')[0] ?? ''}\n${stdout.slice(-6000)}\n${stderr.slice(-6000)}`, { cause: error })
  }
}

const admin = (...args: string[]) => run(['node', 'tools/admin.mjs', ...args])

export const STEPS: Record<string, (at: At) => Promise<void>> = {
  async go({ tests }) {
    for (const name of ['cgroup', 'network', 'pool']) {
      // /tmp of this computer is in memory.
      const options = { cwd: path.join(ROOT, 'machine/internal', name), env: { ...process.env, TMPDIR: '/var/tmp' } }
      const printed = await run([path.join(CACHE, tests, `${name}.test`), '-test.v', '-test.timeout=25m'], options)
      const skipped = printed.split('\n').filter((line) => line.includes('--- SKIP') && !SKIPPED.test(line))
      assert.deepEqual(skipped, [], `${name} skips what this computer has`)
    }
  },

  async install({ notes }) {
    const printed = await admin('service', 'install').catch(async (error: unknown) => {
      const journal = await run(['journalctl', '--boot', '--lines', '80', '--no-pager', '--output', 'short-monotonic'])
      throw new Error(`${String(error)}\nThe whole journal:\n${journal}`, { cause: error })
    })
    const key = /sfk_[A-Za-z0-9_-]+/.exec(printed)?.[0]
    assert.ok(key, `no API key was printed:\n${printed}`)
    notes.key = key
    assert.equal((await run(['systemctl', 'is-enabled', 'berth.service'])).trim(), 'enabled')
    const journal = await run(['journalctl', '--identifier', 'berth', '--output', 'cat', '--no-pager'])
    for (const name of ['hostd', 'api', 'cell']) assert.match(journal, new RegExp(`^${name}: `, 'm'), `the journal has no line of ${name}`)
  },

  async doctor() {
    await admin('doctor')
  },

  async tour({ notes }) {
    await clientOf(notes).open('first') // the first machine of an emulated computer takes longer than the tour waits
    const { script, prints } = readTour()
    const cwd = mkdtempSync(path.join(tmpdir(), 'tour-'))
    const stdout = await run(['bash', '-c', script], { cwd, env: { ...process.env, BERTH: API, KEY: notes.key } })
    const journal =
      stdout === prints ? '' : await run(['journalctl', '--identifier', 'berth', '--output', 'cat', '--no-pager', '--lines', '60'])
    assert.equal(stdout, prints, `it printed\n${stdout}\nand the journal ends:\n${journal}`)
  },

  reach: ({ notes }) => reachesOutside(clientOf(notes)),

  /** Makes Docker and ufw rewrite their firewall rules. */
  async 'docker-reloads'({ notes }) {
    assert.match(await run(['ufw', 'status']), /Status: active/)
    for (const argv of [
      ['systemctl', 'restart', 'docker'],
      ['ufw', 'reload'],
      ['iptables', '-F', 'FORWARD'],
    ]) {
      await run(argv)
      await reachesOutside(clientOf(notes))
    }
    await run(['systemctl', 'restart', 'docker'])
  },

  async 'firewalld-reloads'({ notes }) {
    assert.match(await run(['firewall-cmd', '--state']), /running/)
    for (const argv of [
      ['firewall-cmd', '--reload'],
      ['systemctl', 'restart', 'firewalld'],
    ]) {
      await run(argv)
      await reachesOutside(clientOf(notes))
    }
  },

  async 'before-restart'({ notes }) {
    const client = clientOf(notes)
    const counts = await client.open('counts')
    await startCounting(client, counts)
    assert.equal((await client.operate(`/v1/workspaces/${counts.id}/suspend`)).state, 'succeeded')
    const kept = await client.open('kept')
    const written = await client.tool(kept, '/files?path=/home/user/kept', { method: 'PUT', bytes: Buffer.from('kept') })
    assert.equal(written.status, 200)
    notes.suspended = counts.id
  },

  async [RESTART]() {
    execFileSync('systemctl', ['reboot'])
    await setTimeout(10 * MINUTE)
    throw new Error('the computer did not restart')
  },

  async 'after-restart'({ notes }) {
    const client = clientOf(notes)
    await until('the service serves', async () => (await fetch(`${API}/healthz`).catch(() => null)) !== null)
    await until(
      'the unit is active',
      async () => (await run(['systemctl', 'is-active', 'berth.service']).catch(() => '')).trim() === 'active',
    )
    const counts = await client.open('counts')
    assert.equal(counts.id, notes.suspended)
    const before = await counted(client, counts)
    await until('it counts on', async () => (await counted(client, counts)) > before)
    const kept = await client.open('kept')
    const { bytes } = await client.tool(kept, '/files?path=/home/user/kept')
    assert.equal(bytes.toString(), 'kept')
  },

  async clean() {
    await admin('service', 'uninstall')
    await run(['node', 'tools/clean.mjs'])
    const rules = [await run(['nft', 'list', 'ruleset']), await run(['iptables-save'])].join('\n')
    assert.doesNotMatch(rules, /berth/i)
    assert.doesNotMatch(readFileSync('/proc/mounts', 'utf8'), /\/(run|var\/lib)\/berth/)
    const groups = await run(['find', '/sys/fs/cgroup', '-maxdepth', '2', '-name', 'berth*', '!', '-name', 'berth-hosts-test.service'])
    assert.equal(groups, '')
    assert.doesNotMatch(await run(['ip', 'link']), /: b[0-9a-f]{4}[a-z]/)
    assert.doesNotMatch(await run(['ip', 'netns']), /berth/)
  },

  /** Runs the printed commands, except the build, which needs the internet. */
  async container() {
    await makeImage(run)
    await fillCache(run)
    await run(['bash', '-c', printed('docker run --detach')])
    const key = await keyOfContainer()
    const client = createClient(API, key)
    await reachesOutside(client)
    const kept = await client.open('kept')
    const written = await client.tool(kept, '/files?path=/home/user/kept', { method: 'PUT', bytes: Buffer.from('kept') })
    assert.equal(written.status, 200)
    const counts = await client.open('counts')
    await startCounting(client, counts)
    assert.equal((await client.operate(`/v1/workspaces/${counts.id}/suspend`)).state, 'succeeded')
    await run(['bash', '-c', printed('docker exec berth').replace(/#.*/, '')])
    await run(['bash', '-c', printed('docker stop berth')])
    await run(['docker', 'rm', 'berth'])
    await run(['bash', '-c', printed('docker run --detach')]) // another container on the same volumes
    await until('the container serves', async () => (await fetch(`${API}/healthz`).catch(() => null)) !== null)
    const again = await client.open('counts')
    assert.equal(again.id, counts.id)
    const count = await counted(client, again)
    await until('it counts on', async () => (await counted(client, again)) > count)
    assert.equal((await client.tool(await client.open('kept'), '/files?path=/home/user/kept')).bytes.toString(), 'kept')
    await run(['docker', 'rm', '--force', 'berth'])
    await run(['docker', 'volume', 'rm', 'berth', 'berth-cache'])
    assert.doesNotMatch(await run(['losetup', '--list']), /berth|pool/)
  },

  /** A kernel without simple quotas is refused before any change, with the remedy. */
  async refused() {
    const error = await run([process.execPath, 'tools/start.mjs']).then(
      () => new Error('it was not refused'),
      (failed: unknown) => failed as Error,
    )
    assert.match(error.message, /6\.7/)
    assert.match(error.message, /backports/)
  },
}

async function keyOfContainer(): Promise<string> {
  let key: string | undefined
  await until('the container prints a key', async () => {
    key = /sfk_[A-Za-z0-9_-]+/.exec(await run(['bash', '-c', 'docker logs berth 2>&1']))?.[0]
    return key !== undefined
  })
  assert.ok(key)
  return key
}

function clientOf({ key }: Notes): Client {
  assert.ok(key)
  return createClient(API, key)
}

async function reachesOutside(client: Client): Promise<void> {
  const workspace = await client.open('reaches')
  const ask = ['curl', '-sS', '--max-time', '20', `http://${OUTSIDE.address}:${OUTSIDE.port}/`]
  await until('a machine reaches the outside', async () => {
    const answer = await client.run(workspace, ask).catch((error: unknown) => {
      if (!String(error).includes('"retryable":true')) throw error // machines of an emulated computer are sometimes late
      return null
    })
    return answer?.stdout === OUTSIDE.body
  })
}

async function startCounting(client: Client, workspace: OpenedWorkspace): Promise<void> {
  const script = 'for ((i = 1; ; i++)); do echo $i > new; mv new count; sleep 0.2; done'
  await client.tool(workspace, '/exec', { json: { session_id: 'counter', argv: ['bash', '-c', script] } })
  await until('it counts', async () => (await counted(client, workspace)) > 2)
}

async function counted(client: Client, workspace: OpenedWorkspace): Promise<number> {
  const { stdout } = await client.run(workspace, ['cat', '/home/user/count'])
  return Number(stdout)
}

async function until(what: string, look: () => Promise<boolean>): Promise<void> {
  for (const deadline = performance.now() + 10 * MINUTE; performance.now() < deadline; await setTimeout(1000)) if (await look()) return
  throw new Error(`in ten minutes it did not come to it that ${what}`)
}
