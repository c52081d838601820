import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { hostIdOf, workspaceOf } from './host-id.ts'

/** portd's tests use the same vectors. */
const VECTORS = JSON.parse(readFileSync(new URL('../../../../contract/port-hosts.json', import.meta.url), 'utf8')) as {
  good: { workspace_id: string; host_id: string }[]
  bad: { host_id: string; why: string }[]
}

test('a workspace and its host id map to each other one to one', () => {
  assert.ok(VECTORS.good.length > 0)
  for (const { workspace_id, host_id } of VECTORS.good) {
    assert.deepEqual([hostIdOf(workspace_id), workspaceOf(host_id)], [host_id, workspace_id])
  }
})

test('a host id in another spelling names no workspace', () => {
  assert.ok(VECTORS.bad.length > 0)
  for (const { host_id, why } of VECTORS.bad) assert.equal(workspaceOf(host_id), null, why)
})
