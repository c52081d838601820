import assert from 'node:assert/strict'
import { test } from 'node:test'
import { doctor } from './doctor.ts'
import type { DoctorPaths } from './doctor-facts.ts'

const places: DoctorPaths = {
  database_url: 'postgres://berth@/berth?host=/nowhere/run',
  embedded: true,
  instance: 'none',
  data_dir: '/nowhere/data',
  data_reserve_bytes: 0,
  run_dir: '/nowhere/run',
  hostd_socket: '/nowhere/run/hostd',
  api_ops: { host: '127.0.0.1', port: 9 },
  cell_ops: { host: '127.0.0.1', port: 9 },
  cell_name: 'none',
  slots: 1,
  shells: 1,
  mail_directory: '',
}

test('a missing data folder is the only finding', async () => {
  const lines: string[] = []
  const output = { line: (text: string) => void lines.push(text), note: () => undefined }
  assert.equal(await doctor([], places, output), 1)
  assert.deepEqual([lines.length, /^WRONG +data_dir +\/nowhere\/data is not there/.test(lines[0] ?? '')], [1, true], lines.join('\n'))
  assert.equal(await doctor(['--json'], places, output), 1)
  const { healthy, findings } = JSON.parse(lines[1] ?? '') as { healthy: boolean; findings: { check: string; level: string }[] }
  assert.deepEqual([healthy, findings.map(({ check, level }) => [check, level])], [false, [['data_dir', 'wrong']]])
})
