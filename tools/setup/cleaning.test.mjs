import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { dataNames } from './cleaning.mjs'

const ROOT = join(import.meta.dirname, '../..')
const names = dataNames({ data_dir: '/data', run_dir: '/run/berth/0000' })

function namesInGo() {
  const files = readdirSync(join(ROOT, 'machine'), { recursive: true }).filter((file) => file.endsWith('.go') && !file.endsWith('_test.go'))
  const found = files.flatMap((file) => [
    ...readFileSync(join(ROOT, 'machine', file), 'utf8').matchAll(/Join\((?:[\w.]*\.)?[dD]ataDir, "([^"]+)"/g),
  ])
  return new Set(found.map(([, name]) => name))
}

test('clean --data removes all that a start creates in the data directory, and nothing else', () => {
  for (const name of ['mail', 'trees', 'uploads', 'pg', 'keys', 'layers', 'logs', 'compiled', 'pool.img', '.restoring'])
    assert.ok(names.includes(name), name)
  const in_go = namesInGo()
  assert.ok(in_go.size >= 5, [...in_go].join(', '))
  assert.deepEqual(
    [...in_go].filter((name) => !names.includes(name)),
    [],
  )
  assert.deepEqual([names.includes('config.json'), names.every((name) => !name.includes('/') && name !== '')], [false, true])
})
