import assert from 'node:assert/strict'
import type { Client, OpenedWorkspace } from './client.ts'

// Renamed into place, because a reader could see a rewritten file as empty.
const COUNTS = 'i=0; while true; do i=$((i+1)); echo $i > /dev/shm/count.new; mv /dev/shm/count.new /dev/shm/count; sleep 0.02; done'
const GROWS =
  'a=$(cat /dev/shm/count); for i in $(seq 1500); do b=$(cat /dev/shm/count); [ "$b" -gt "$a" ] && echo $b && exit 0; sleep 0.02; done; exit 1'

export async function startCounter(client: Client, workspace: OpenedWorkspace): Promise<void> {
  const { status } = await client.tool(workspace, '/exec', { json: { session_id: 'count', argv: ['sh', '-c', COUNTS] } })
  assert.equal(status, 201)
  const { exit } = await client.run(workspace, ['sh', '-c', 'until [ -s /dev/shm/count ]; do sleep 0.02; done'])
  assert.equal(exit.exit_code, 0)
}

/** @returns the count of the same process */
export async function assertCounts(client: Client, workspace: OpenedWorkspace): Promise<number> {
  const { stdout, stderr, exit } = await client.run(workspace, ['sh', '-c', GROWS])
  assert.equal(exit.exit_code, 0, `the guest stands still: ${stdout}${stderr}`)
  return Number(stdout)
}
