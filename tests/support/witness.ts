import assert from 'node:assert/strict'
import type { Client, OpenedWorkspace } from './client.ts'

export interface Testimony {
  pid: number
  /** Drawn at the program's start, and only in its memory. */
  nonce: string
  count: number
  /** Content of a deleted file that the program holds open. */
  unlinked: string
  canary: string
}

/** The program sleeps between counts, so that its machine can still be parked. */
const PROGRAM = `import json, os, signal, time
kept = open('/home/user/gone', 'w+')
os.remove('/home/user/gone')
print('kept', end='', file=kept, flush=True)
nonce, count = os.urandom(16).hex(), 0
with open('/dev/shm/canary', 'w') as canary: canary.write(nonce)
def say(*_):
    kept.seek(0)
    with open('/dev/shm/canary') as canary: seen = canary.read()
    with open('/home/user/said.new', 'w') as said:
        json.dump({'pid': os.getpid(), 'nonce': nonce, 'count': count, 'unlinked': kept.read(), 'canary': seen}, said)
    os.rename('/home/user/said.new', '/home/user/said')
signal.signal(signal.SIGUSR1, say)
with open('/home/user/pid', 'w') as pid: pid.write(str(os.getpid()))
while True:
    time.sleep(0.2)
    count += 1
`
const START = 'setsid python3 /home/user/witness.py >/dev/null 2>&1 & until [ -s /home/user/pid ]; do sleep 0.05; done'
const ASK = 'cd /home/user; rm -f said; kill -USR1 $(cat pid) && until [ -s said ]; do sleep 0.05; done; cat said'

/** Outside of a command, which would keep the machine in use. */
export async function startWitness(client: Client, workspace: OpenedWorkspace): Promise<Testimony> {
  const { status } = await client.tool(workspace, '/files?path=/home/user/witness.py', { method: 'PUT', bytes: Buffer.from(PROGRAM) })
  assert.equal(status, 200)
  await client.run(workspace, ['bash', '-c', START])
  return askWitness(client, workspace)
}

export async function askWitness(client: Client, workspace: OpenedWorkspace): Promise<Testimony> {
  const { stdout } = await client.run(workspace, ['bash', '-c', ASK])
  return JSON.parse(stdout) as Testimony
}

export async function assertContinues(client: Client, workspace: OpenedWorkspace, before: Testimony): Promise<void> {
  const now = await askWitness(client, workspace)
  const { count, ...same } = before
  assert.deepEqual({ ...now, count: null }, { ...same, count: null })
  assert.ok(now.count >= count, `the witness went back from ${count} to ${now.count}`)
  for (let looks = 1; (await askWitness(client, workspace)).count === now.count; looks++) {
    assert.ok(looks < 20, `the witness stands still at ${now.count}`)
    await client.run(workspace, ['sleep', '0.5'])
  }
}
