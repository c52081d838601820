import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ofDisk } from './doctor-checks.ts'

const GIB = 2 ** 30

test('the doctor says how near the disk of the database is to its reserve', () => {
  const level = (free_gib: number) =>
    ofDisk({ data_reserve_bytes: 10 * GIB }, { data_free_bytes: free_gib * GIB, data_bytes: 200 * GIB, host: null }).map(
      ({ check, level }) => `${check} ${level}`,
    )
  assert.deepEqual([level(13), level(11), level(9)], [['data_disk ok'], ['data_disk notice'], ['data_disk wrong']])
})
