// Needs its own installation: the tests kill its processes.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync, globSync, readdirSync, readFileSync, statSync } from 'node:fs'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { isRunning, until } from '../support/processes.ts'
import { type ChildName, type Service, startService } from '../support/service.ts'
import { cleanEnvironment } from '../support/sweep.ts'
import { patience } from '../support/patience.ts'

const execute = promisify(execFile)
const ROOT = path.resolve(import.meta.dirname, '../..')
const CHILDREN = ['postgres', 'hostd', 'api', 'cell', 'portd'] as const

let service: Service
before(async () => {
  service = await startService()
})
after(async () => {
  if (existsSync(service.data_dir)) await service.stop()
})

function pids(): Record<string, number> {
  const read = (child: string) =>
    (JSON.parse(readFileSync(path.join(service.run_dir, 'children', `${child}.json`), 'utf8')) as { pid: number }).pid
  return Object.fromEntries(CHILDREN.map((child) => [child, read(child)]))
}

function uidNames(): string[] {
  return Object.values(pids()).map((pid) => userOf(readFileSync(`/proc/${pid}/status`, 'utf8')))
}

function userOf(status: string): string {
  const users = new Map(
    readFileSync('/etc/passwd', 'utf8')
      .split('\n')
      .map((line) => [line.split(':')[2], line.split(':')[0]] as const),
  )
  return users.get(/^Uid:\t(\d+)\t/m.exec(status)?.[1]) ?? ''
}

const supervisor = () => Number(readFileSync(path.join(service.data_dir, 'supervisor.lock'), 'utf8').trim())

test('PostgreSQL, api, cell and portd each run as their own user, and only hostd as root', () => {
  assert.deepEqual(uidNames(), ['berth-pg', 'root', 'berth-api', 'berth-cell', 'berth-ports'])
})

test('name queries of machines are parsed by a process without privileges', () => {
  const title = `berth-${service.instance}-resolver\0`
  const found = globSync('/proc/[0-9]*/cmdline').filter((file) => contentOf(file).startsWith(title))
  assert.equal(found.length, 1)
  const status = contentOf(path.join(path.dirname(found[0] ?? ''), 'status'))
  assert.equal(userOf(status), 'berth-dns')
  assert.match(status, /^CapPrm:\t0{16}$/m)
  assert.match(status, /^NoNewPrivs:\t1$/m)
  assert.match(status, /^Seccomp:\t2$/m)
})

function contentOf(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return '' // it ended while the list was being read
  }
}

test('api and cell cannot read files of other processes', async () => {
  const read = async (user: string, file: string) =>
    execute('setpriv', ['--reuid', user, '--regid', user, '--clear-groups', 'cat', file]).then(
      () => 'read',
      () => 'refused',
    )
  const secrets = ['keys/first-api-key', 'keys/host.key', 'pg/PG_VERSION', 'logs/api.log'].map((name) => path.join(service.data_dir, name))
  const keysOf = (name: string) => readdirSync(path.join(service.data_dir, name)).map((file) => path.join(service.data_dir, name, file))
  const [keys, cell_keys] = [keysOf('keys/api'), keysOf('keys/cell')]
  assert.ok(keys.length > 0 && cell_keys.length > 0)
  const answers = await Promise.all([
    ...[...secrets, ...cell_keys, path.join(service.run_dir, 'config/cell.json')].map((file) => read('berth-api', file)),
    ...[...secrets, ...keys, path.join(service.run_dir, 'config/api.json')].map((file) => read('berth-cell', file)),
  ])
  assert.deepEqual([...new Set(answers)], ['refused'])
})

test('a second start on the same data directory fails with that reason', async () => {
  const command = [path.join(ROOT, 'tools/start.mjs'), '--data-dir', service.data_dir]
  await assert.rejects(
    execute(process.execPath, command, { env: cleanEnvironment(), timeout: patience(300_000) }),
    (error: { code: number; stderr: string }) => {
      assert.equal(error.code, 3)
      assert.match(error.stderr, /already running on this data directory/)
      return true
    },
  )
})

test('an operator command reaches the embedded database, and an unprivileged user does not', async () => {
  const key = await service.admin('key', 'create', '--organization', 'default', '--project', 'default', '--tools', 'exec,files', '--quiet')
  assert.match(key, /^sfk_[0-9a-f]{16}_[0-9a-f]{64}\n$/)
  const psql = `const pg = require('pg'); new pg.Client({ connectionString: ${JSON.stringify(service.database_url())} }).connect().then(() => 0, () => process.exit(9))`
  const asNobody = ['--reuid', 'nobody', '--regid', 'nogroup', '--clear-groups', process.execPath, '-e', psql]
  await assert.rejects(execute('setpriv', asNobody, { cwd: path.join(service.run_dir, 'app') }), ({ code }: { code: number }) => code === 9)
})

for (const child of CHILDREN satisfies readonly ChildName[]) {
  test(`kill -9 of ${child}: it is started again and everything serves`, async () => {
    const before_kill = pids()
    await service.kill9(child)
    await service.ready()
    const changed = Object.entries(pids()).filter(([name, pid]) => before_kill[name] !== pid)
    assert.deepEqual(
      changed.map(([name]) => name),
      [child],
    )
  })
}

test('kill -9 of the supervisor ends no process, and the next supervisor takes over the running ones', async () => {
  const [before_kill, killed] = [pids(), supervisor()]
  await service.kill9('supervisor')
  assert.deepEqual(pids(), before_kill)
  await service.ready()
  assert.deepEqual(pids(), before_kill)
  assert.notEqual(supervisor(), killed)
})

/** The promise is five seconds, on an idle computer. */
const WARM_START_SECONDS_MAX = 30

test(`a restart by SIGTERM ends every process, and a warm start serves within ${WARM_START_SECONDS_MAX} s`, async (t) => {
  const before_restart = pids()
  await service.stopProcesses()
  assert.deepEqual(Object.values(before_restart).filter(isRunning), [])
  assert.equal(existsSync(path.join(service.run_dir, 'app', 'package.json')), false, 'the clone is still mounted')
  const started = performance.now()
  await service.ready()
  const seconds = (performance.now() - started) / 1000
  t.diagnostic(`warm start: ${seconds.toFixed(1)} s`)
  assert.ok(seconds < WARM_START_SECONDS_MAX, `${seconds} s`)
})

test('clean removes everything from the kernel and keeps the data', async () => {
  const file = path.join(service.data_dir, 'pool.img')
  const clean = [path.join(ROOT, 'tools/clean.mjs'), '--data-dir', service.data_dir]
  await execute(process.execPath, clean, { env: cleanEnvironment(), timeout: patience(300_000) })
  assert.equal(existsSync(service.run_dir), false)
  assert.ok(statSync(file).size > 0)
  assert.equal(readFileSync('/proc/self/mountinfo', 'utf8').includes(service.instance), false)
  const name = `berth-${service.instance}`
  const cgroups = ['', ...readdirSync('/sys/fs/cgroup')].filter((each) => existsSync(path.join('/sys/fs/cgroup', each, name)))
  assert.deepEqual(cgroups, [])
  assert.deepEqual(
    readdirSync('/sys/class/net').filter((each) => each.includes(service.instance)),
    [],
  )
  // udev and similar programs hold a new device for a moment.
  const attached = async () => (await execute('losetup', ['--list', '--noheadings', '--output', 'BACK-FILE'])).stdout.includes(file)
  await until('the image is detached', 30_000, async () => !(await attached()))
  assert.deepEqual(await service.stop(), ['config.json'], 'clean --data leaves the file of the settings alone')
  assert.equal(existsSync(service.data_dir), false)
})
