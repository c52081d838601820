// Uses a small folder with the structure of a data directory. The acceptance test covers real content.
import assert from 'node:assert/strict'
import { execFile, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  appendFileSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { isRunning, until } from '../../tests/support/processes.ts'
import { accountOf, ACCOUNTS } from '../setup/accounts.mjs'

const TOOLS = fileURLToPath(new URL('..', import.meta.url))
const POOL_BYTES = 8 << 20
const WAIT_MS = 120_000
let folder, data, target, fresh

beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'berth-backup-'))
  for (const name of ['data/keys/api', 'data/pg/pg_notify', 'data/layers', 'data/logs', 'bin'])
    mkdirSync(path.join(folder, name), { recursive: true })
  ;[data, target, fresh] = ['data', 'backup', 'fresh'].map((name) => path.join(folder, name))
  const files = {
    'keys/host.key': 'host',
    'keys/api/first': 'signs',
    'pg/PG_VERSION': '18\n',
    'layers/a.erofs': 'layer',
    'logs/api.log': 'said',
  }
  for (const [name, text] of Object.entries(files)) writeFileSync(path.join(data, name), text)
  writeFileSync(path.join(data, 'pool.img'), Buffer.alloc(1 << 20, 7))
  truncateSync(path.join(data, 'pool.img'), POOL_BYTES)
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

function tool(name, ...args) {
  return new Promise((resolve) => {
    execFile(process.execPath, [path.join(TOOLS, name), ...args], { env: environment() }, (error, stdout, stderr) =>
      resolve({ code: error?.code ?? 0, said: stdout + stderr }),
    )
  })
}

function environment() {
  const own = Object.entries(process.env).filter(([name]) => name !== 'DATABASE_URL' && !name.startsWith('BERTH_'))
  return { ...Object.fromEntries(own), PATH: `${path.join(folder, 'bin')}:${process.env.PATH}` }
}

async function refused(command, why) {
  const { code, said } = await command
  assert.notEqual(code, 0)
  assert.match(said, why)
}

const backUp = () => tool('backup.mjs', '--data-dir', data, target)
const restore = () => tool('restore.mjs', '--data-dir', fresh, target)
const start = () => tool('setup/prepare.mjs', '{}', '--data-dir', fresh)
const held = () => readdirSync(fresh).filter((name) => name !== 'supervisor.lock')

async function backedUp() {
  const { code, said } = await backUp()
  assert.equal(code, 0, said)
}

async function endedWhileItCopies(t, how, name, ...args) {
  const [cp, copying] = [path.join(folder, 'bin/cp'), path.join(folder, 'copying')]
  execFileSync('mkfifo', [copying])
  // The fake cp writes its pid into a pipe, so that the test can wait for its end.
  writeFileSync(cp, `#!/bin/sh\nfor to; do :; done\nprintf part > "$to"\necho $$ > ${copying}\nexec sleep 86400\n`, { mode: 0o755 })
  const command = spawn(process.execPath, [path.join(TOOLS, name), ...args], { env: environment(), stdio: 'ignore' })
  t.after(() => command.kill('SIGKILL'))
  const ended = once(command, 'exit')
  const copier = Number(execFileSync('cat', [copying], { encoding: 'utf8', timeout: WAIT_MS }))
  const holder = Number(readFileSync(path.join(name === 'backup.mjs' ? data : fresh, 'supervisor.lock'), 'utf8'))
  process.kill(holder, how)
  await ended
  await until('the copying has ended', WAIT_MS, () => !isRunning(copier))
  for (const file of [cp, copying]) rmSync(file)
}

test('a restore brings back every kept file with its owner and the pool with all its blocks', async () => {
  writeFileSync(path.join(data, 'pg/postmaster.pid'), '1\n')
  await backedUp()
  assert.ok(statSync(path.join(target, 'data/pool.img')).blocks * 512 < POOL_BYTES)
  const { code, said } = await restore()
  assert.equal(code, 0, said)
  assert.deepEqual(held().toSorted(), ['keys', 'layers', 'pg', 'pool.img'])
  for (const name of ['keys/host.key', 'keys/api/first', 'pg/PG_VERSION', 'layers/a.erofs', 'pool.img'])
    assert.ok(readFileSync(path.join(fresh, name)).equals(readFileSync(path.join(data, name))), name)
  assert.deepEqual(readdirSync(path.join(fresh, 'pg')).toSorted(), ['PG_VERSION', 'pg_notify'])
  assert.ok(statSync(path.join(fresh, 'pool.img')).blocks * 512 >= POOL_BYTES)
  const owners = ['pg/PG_VERSION', 'keys/api/first', 'keys/host.key'].map((name) => statSync(path.join(fresh, name)).uid)
  assert.deepEqual(owners, [accountOf(ACCOUNTS.postgres).uid, accountOf(ACCOUNTS.api).uid, 0])
})

test('a restore gives files to the users of the processes on the new computer', async () => {
  const files = {
    postgres: ['pg/PG_VERSION'],
    api: ['keys/api/first', 'uploads/0198c2a0-0000-7000-8000-000000000001/part'],
    cell: ['keys/cell/first', 'trees/0198c2a0-0000-7000-8000-000000000001/aa/blob'],
  }
  for (const name of Object.values(files).flat()) {
    mkdirSync(path.join(data, path.dirname(name)), { recursive: true })
    writeFileSync(path.join(data, name), name)
    for (let each = name; !['.', 'keys'].includes(each); each = path.dirname(each)) chownSync(path.join(data, each), 4242, 4242)
  }
  await backedUp()
  const { code, said } = await restore()
  assert.equal(code, 0, said)
  for (const [role, names] of Object.entries(files)) {
    for (const name of names) {
      assert.equal(readFileSync(path.join(fresh, name), 'utf8'), name)
      for (let each = name; !['.', 'keys'].includes(each); each = path.dirname(each))
        assert.equal(statSync(path.join(fresh, each)).uid, accountOf(ACCOUNTS[role]).uid, each)
    }
  }
  const uploads = statSync(path.join(fresh, 'uploads'))
  assert.deepEqual([uploads.gid, uploads.mode & 0o7777], [accountOf(ACCOUNTS.cell).gid, 0o2750])
})

test('an installation that runs, or whose pool is in use, is not copied', async (t) => {
  const lock = path.join(data, 'supervisor.lock')
  const holder = spawn('flock', [lock, 'sh', '-c', 'echo held; exec cat'], { stdio: ['pipe', 'pipe', 'inherit'] })
  t.after(() => holder.kill('SIGKILL'))
  await once(holder.stdout, 'data')
  await refused(backUp(), /Something runs on .*: stop Berth first/)
  holder.stdin.end()
  await once(holder, 'exit')
  const loop = execFileSync('losetup', ['--find', '--show', path.join(data, 'pool.img')], { encoding: 'utf8' }).trim()
  try {
    await refused(backUp(), /The pool is still in use .*npm run clean/)
  } finally {
    execFileSync('losetup', ['--detach', loop])
  }
  const server = spawn('sleep', ['86400'], { cwd: path.join(data, 'pg') })
  t.after(() => server.kill('SIGKILL'))
  writeFileSync(path.join(data, 'pg/postmaster.pid'), `${server.pid}\n`)
  await refused(backUp(), /The database still runs/)
  server.kill('SIGKILL')
  await once(server, 'exit')
  assert.ok(!existsSync(target))
  await backedUp()
  await refused(backUp(), /is there already/)
})

test('a backup that is killed leaves nothing that a restore takes, and the next one succeeds', async (t) => {
  await endedWhileItCopies(t, 'SIGKILL', 'backup.mjs', '--data-dir', data, target)
  assert.ok(!existsSync(target))
  await refused(restore(), /is not a backup, or not a whole one/)
  await refused(tool('restore.mjs', '--data-dir', fresh, path.join(folder, '.backup.unfinished')), /is not a backup, or not a whole one/)
  assert.deepEqual(held(), [])
  await backedUp()
  assert.ok(!existsSync(path.join(folder, '.backup.unfinished')))
})

test('a backup or a restore that is told to end leaves nothing', async (t) => {
  await endedWhileItCopies(t, 'SIGTERM', 'backup.mjs', '--data-dir', data, target)
  assert.deepEqual(readdirSync(folder).toSorted(), ['bin', 'data'])
  await backedUp()
  await endedWhileItCopies(t, 'SIGTERM', 'restore.mjs', '--data-dir', fresh, target)
  assert.deepEqual(held(), [])
})

const DAMAGES = {
  'with a byte that changed': [/keys\/host.key is damaged/, (at) => writeFileSync(at('data/keys/host.key'), 'hos!')],
  'whose pool is cut off': [/pool.img is damaged/, (at) => truncateSync(at('data/pool.img'), POOL_BYTES - 4096)],
  'without a file': [/layers\/a.erofs is missing/, (at) => rmSync(at('data/layers/a.erofs'))],
  'without an empty folder': [/pg\/pg_notify\/ is missing/, (at) => rmSync(at('data/pg/pg_notify'), { recursive: true })],
  'with a file too many': [/pg\/standby.signal was not in it/, (at) => writeFileSync(at('data/pg/standby.signal'), '')],
  'whose list is cut off': [/backup.json is damaged/, (at) => truncateSync(at('backup.json'), 100)],
  'of another format': [/is of format 2/, (at) => writeFileSync(at('backup.json'), '{"format":2,"contents":[]}')],
}
for (const [title, [why, damage]] of Object.entries(DAMAGES)) {
  test(`a backup ${title} is refused before anything is made`, async () => {
    await backedUp()
    damage((name) => path.join(target, name))
    await refused(restore(), why)
    assert.deepEqual(held(), [])
  })
}

test('a restore overwrites nothing', async () => {
  await backedUp()
  mkdirSync(fresh)
  appendFileSync(path.join(fresh, 'mine'), 'mine')
  await refused(restore(), /is not empty \(mine\)/)
  assert.deepEqual(held(), ['mine'])
})

test('Berth does not start on a restore that was killed, and the same command finishes it', async (t) => {
  await backedUp()
  await endedWhileItCopies(t, 'SIGKILL', 'restore.mjs', '--data-dir', fresh, target)
  assert.ok(held().includes('.restoring'))
  await refused(start(), /A restore to .* was not finished: run it again/)
  await refused(tool('backup.mjs', '--data-dir', fresh, path.join(folder, 'other')), /was not finished/)
  const { code, said } = await restore()
  assert.equal(code, 0, said)
  assert.deepEqual(held().toSorted(), ['keys', 'layers', 'pg', 'pool.img'])
})

test('a restore that fails leaves the directory empty', async () => {
  await backedUp()
  writeFileSync(path.join(folder, 'bin/fallocate'), '#!/bin/sh\necho no room >&2\nexit 1\n', { mode: 0o755 })
  await refused(restore(), /no room/)
  assert.deepEqual(held(), [])
})
