// Needs its own installation: the tests check its files on the host.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { glob } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { createClient, type Client, type OpenedWorkspace } from '../support/client.ts'
import { depth } from '../support/depth.ts'
import { startService, type Service } from '../support/service.ts'
import { patience } from '../support/patience.ts'

const SOURCE = path.resolve(import.meta.dirname, '../support/intruder')
const PROGRAM = '/home/user/intruder'
const STARTS = depth({ short: 600, long: 3000 })
const STARTS_AT_ONCE = 6
const WATCH_MS = depth({ short: 12_000, long: 60_000 })
/** Ignored: the sandbox kernel keeps named pipes in memory. */
const IN_MEMORY = 'fifo'

interface Mount {
  point: string
  type: string
  done: string[] | null
}

interface Watched {
  processes: number
  opened: number
  refused: number
  escapes: string[] | null
}

let service: Service
let client: Client
let workspace: OpenedWorkspace
let folder: string
before(async () => {
  service = await startService()
  client = createClient(service.base_url, service.api_key)
  workspace = await client.open('intruder', { caps: { memory_mib: 1024, disk_gib: 2 } })
  folder = mkdtempSync(path.join(tmpdir(), 'berth-intruder-'))
  const binary = path.join(folder, 'intruder')
  const env = { ...process.env, CGO_ENABLED: '0', GOFLAGS: '', GO111MODULE: 'off' }
  const sources = ['main.go', 'memfd.go', 'mounts.go', 'processes.go'].map((name) => path.join(SOURCE, name))
  execFileSync('go', ['build', '-trimpath', '-buildvcs=false', '-ldflags', '-s -w', '-o', binary, ...sources], { env, cwd: SOURCE })
  const { status } = await client.tool(workspace, `/files?path=${PROGRAM}`, { method: 'PUT', bytes: readFileSync(binary) })
  assert.equal(status, 200)
  assert.equal((await client.run(workspace, ['chmod', '755', PROGRAM])).exit.exit_code, 0)
})
after(async () => {
  rmSync(folder, { recursive: true, force: true })
  await service.stop()
})

test('root of a guest can write only to its own disk and memory, whatever it mounts', { timeout: patience(240_000) }, async () => {
  const name = `berth-intruder-${randomBytes(6).toString('hex')}`
  const { stdout, stderr } = await client.run(workspace, [PROGRAM, 'mounts', name], { user: 'root' })
  assert.equal(stderr, '')
  const mounts = JSON.parse(stdout) as Mount[]
  const done = new Map(mounts.map((each) => [each.point, (each.done ?? []).filter((change) => change !== IN_MEMORY)]))
  assert.deepEqual(done.get('/volumes'), [], 'the base of the volumes takes no change')
  assert.ok(done.get('/')?.includes('file'), 'the disk takes one, so that the tries are known to work')
  assertNothingOnTheHost(name)
})

test(
  `of ${STARTS} processes that are started beside it, root of a guest opens nothing that is not the guest's`,
  { timeout: patience(280_000) },
  async () => {
    const agents = await digestsOfAgents()
    const watch = client.run(workspace, [PROGRAM, 'processes', '/tmp/enough'], { user: 'root' })
    const began = performance.now()
    let started = 0
    const start = async () => {
      while (started < STARTS || performance.now() - began < WATCH_MS) {
        started++
        const { status } = await client.tool(workspace, '/exec', {
          json: { argv: ['/bin/true'], user: started % 2 === 0 ? 'root' : 'user' },
        })
        assert.equal(status, 201)
      }
    }
    await Promise.all(Array.from({ length: STARTS_AT_ONCE }, start))
    await client.tool(workspace, '/files?path=/tmp/enough', { method: 'PUT', bytes: Buffer.from('enough') })
    const { stdout, stderr } = await watch
    assert.equal(stderr, '')
    const watched = JSON.parse(stdout) as Watched
    console.log(
      `${started} starts in ${Math.round((performance.now() - began) / 1000)} s: ${JSON.stringify({ ...watched, escapes: undefined })}`,
    )
    assert.deepEqual(watched.escapes ?? [], [])
    assert.ok(watched.processes > STARTS / 10, 'the intruder saw processes')
    assert.ok(watched.opened > 0, 'and could open what is the guest’s own')
    assert.ok(watched.refused > 0, 'and met some that were being started')
    assert.deepEqual(await digestsOfAgents(), agents, 'the files of the agent on the host')
  },
)

test('root of a guest finds no descriptor, device or file system of the host', async () => {
  const name = `berth-intruder-${randomBytes(6).toString('hex')}`
  const program = readFileSync(path.join(SOURCE, 'surroundings.py'), 'utf8')
  const { stdout, stderr } = await client.run(workspace, ['python3', '-c', program, name], { user: 'root' })
  assert.equal(stderr, '')
  const { mounted, devices, ...found } = JSON.parse(stdout) as {
    mounted: Record<string, string | null>
    devices: Record<string, string | null>
  }
  // Descriptor 3 belongs to the listing itself.
  const nothing = { absent: [], packets: 'Operation not permitted', raw: 'Operation not permitted', modules: false, swap: false }
  assert.deepEqual(found, { descriptors: ['0', '1', '2', '3'], ...nothing })
  const takes = Object.keys(mounted).filter((kind) => mounted[kind] === 'written')
  assert.deepEqual(takes.sort(), ['devtmpfs', 'tmpfs'], 'what can be mounted and written to is the memory of the sandbox')
  for (const [device, outcome] of Object.entries(devices)) {
    assert.match(outcome ?? 'it can be read', /^(Operation not permitted|No such device or address)$/, device)
  }
  assertNothingOnTheHost(name)
})

/** Skips the pool, a separate mount, whose files are charged to the workspace's quota. */
function assertNothingOnTheHost(name: string): void {
  const found = execFileSync('find', [service.data_dir, service.run_dir, '-xdev', '-name', `${name}*`], { encoding: 'utf8' })
  assert.equal(found, '', 'files of the host')
}

async function digestsOfAgents(): Promise<string[]> {
  const digests: string[] = []
  for await (const file of glob(path.join(service.data_dir, 'agents/*/agent'))) {
    const { ino, nlink, mtimeMs } = statSync(file)
    digests.push(`${file} ${ino} ${nlink} ${mtimeMs} ${createHash('sha256').update(readFileSync(file)).digest('hex')}`)
  }
  assert.equal(digests.length, 1)
  return digests
}
