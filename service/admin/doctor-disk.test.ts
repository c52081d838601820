import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ofCapacity, ofDisk } from './doctor-checks.ts'

const GIB = 2 ** 30

test('the doctor compares free disk space with the reserve', () => {
  const level = (free_gib: number) =>
    ofDisk({ data_reserve_bytes: 10 * GIB }, { data_free_bytes: free_gib * GIB, data_bytes: 200 * GIB, host: null }).map(
      ({ check, level }) => `${check} ${level}`,
    )
  assert.deepEqual([level(13), level(11), level(9)], [['data_disk ok'], ['data_disk notice'], ['data_disk wrong']])
})

test('waiting operations are counted per missing resource, with the longest wait', () => {
  const operation = (state: string, age_seconds: number, short: string[] | null) => ({
    id: 'o',
    kind: 'open',
    attempt: 0,
    state,
    age_seconds,
    short,
  })
  assert.deepEqual(ofCapacity({ operations: [operation('running', 900, null)] }), {
    check: 'capacity',
    level: 'ok',
    text: 'No operation waits for capacity',
  })
  const operations = [operation('capacity_pending', 80.2, ['disk_gib']), operation('capacity_pending', 7, ['memory_mib', 'disk_gib'])]
  assert.deepEqual(ofCapacity({ operations }), {
    check: 'capacity',
    level: 'notice',
    text: '2 operations wait for capacity, the longest for 80 s: 2 for disk_gib, 1 for memory_mib',
  })
})
