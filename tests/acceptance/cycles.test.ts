import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createClient, type Client, type OpenedWorkspace } from '../support/client.ts'
import { depth } from '../support/depth.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'
import { patience } from '../support/patience.ts'

const CYCLES = depth({ short: 3, long: 50 })
const CANARY_MIB = 64
const small = { caps: { memory_mib: 512 } }

/** One answer proves memory, processes, disk and open files: the same hashes are in a file, in a deleted open file and in memory. */
const WITNESS = `
import hashlib, json, os, time
canary = os.urandom(1 << 20) * ${CANARY_MIB}
open('/dev/shm/canary', 'wb').write(canary)
digest = hashlib.sha256(canary).hexdigest()
del canary
grown = open('/home/user/grown', 'a+')
deleted = open('/home/user/deleted', 'w+'); os.unlink('/home/user/deleted')
number, chain, lines = 0, '', []
while True:
    number += 1
    chain = hashlib.sha256((chain + str(number)).encode()).hexdigest()
    lines.append(f'{number} {chain}\\n')
    for file in (grown, deleted):
        file.write(lines[-1]); file.flush()
    if os.path.exists('/dev/shm/ask'):
        text = ''.join(lines)
        deleted.seek(0); grown.seek(0)
        answer = {'pid': os.getpid(), 'number': number, 'grown': grown.read() == text, 'deleted': deleted.read() == text,
                  'canary': hashlib.sha256(open('/dev/shm/canary', 'rb').read()).hexdigest() == digest}
        open('/dev/shm/answer.new', 'w').write(json.dumps(answer)); os.remove('/dev/shm/ask'); os.rename('/dev/shm/answer.new', '/dev/shm/answer')
    time.sleep(0.01)
`
const ASK =
  'rm -f /dev/shm/answer; touch /dev/shm/ask; for i in $(seq 6000); do [ -s /dev/shm/answer ] && cat /dev/shm/answer && exit; sleep 0.01; done; exit 1'

interface Testimony {
  pid: number
  number: number
  grown: boolean
  deleted: boolean
  canary: boolean
}

let service: SharedService
let client: Client

before(async () => {
  service = await sharedService()
  client = createClient(service.base_url, service.api_key)
})
after(async () => {
  await service.stop()
})

async function testimony(workspace: OpenedWorkspace): Promise<Testimony> {
  const { stdout, exit } = await client.run(workspace, ['bash', '-c', ASK])
  assert.equal(exit.exit_code, 0, 'the witness says nothing')
  return JSON.parse(stdout) as Testimony
}

/** A suspend deletes the superseded checkpoint after its answer. */
async function onlyCheckpoint(id: string, cycle: number): Promise<number> {
  for (const deadline_ms = performance.now() + patience(60_000); performance.now() < deadline_ms;) {
    const files = (await service.inventory()).files.find(({ subject }) => subject.id === id)
    const [checkpoint, ...others] = files?.checkpoints ?? []
    if (checkpoint !== undefined && others.length === 0) return checkpoint.size_bytes
    await new Promise((resolve) => setTimeout(resolve, 25))
  }
  throw new Error(`after cycle ${cycle} there is not one checkpoint`)
}

test(
  `${CYCLES} suspends and resumes: the same processes go on, and no byte of memory, files and open deleted files is lost`,
  { timeout: patience(240_000) },
  async () => {
    let workspace = await client.open('cycles', small)
    await client.tool(workspace, '/exec', { json: { session_id: 'witness', argv: ['python3', '-c', WITNESS] } })
    const first = await testimony(workspace)
    let last = first
    const sizes: number[] = []
    for (let cycle = 1; cycle <= CYCLES; cycle++) {
      assert.equal((await client.operate(`/v1/workspaces/${workspace.id}/suspend`)).state, 'succeeded', `suspend ${cycle}`)
      sizes.push(await onlyCheckpoint(workspace.id, cycle))
      workspace = await client.open('cycles', small)
      const now = await testimony(workspace)
      assert.deepEqual(
        { ...now, number: 0 },
        { pid: first.pid, number: 0, grown: true, deleted: true, canary: true },
        `after cycle ${cycle}`,
      )
      assert.ok(now.number > last.number, `cycle ${cycle}: ${last.number}, then ${now.number}`)
      last = now
    }
    const [early = 0] = sizes
    assert.ok(Math.max(...sizes) < early * 1.5 + (32 << 20), `images grow: ${sizes.join(', ')}`)
    const inventory = await service.inventory()
    assert.deepEqual([inventory.machines.length, inventory.files.length, inventory.files[0]?.disks.length], [1, 1, 1])
  },
)
