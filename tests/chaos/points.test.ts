import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { everyPoint } from './points.ts'

const HOSTD = path.join(import.meta.dirname, '../../machine/internal/hostd/failpoint.go')

test('npm run failpoints knows an operation for every failpoint of hostd, or a test that covers it', () => {
  const [, list = ''] = /var FailpointNames = \[\]string\{([\s\S]*?)\n\}/.exec(readFileSync(HOSTD, 'utf8')) ?? []
  const names = [...list.matchAll(/"([\w.]+)"/g)].map(([, name = '']) => name)
  assert.ok(names.length > 30, `${names.length} names were read`)
  const kinds = new Set(everyPoint(names).map(({ kind }) => kind))
  const reachable = [
    'adopt',
    'delete',
    'fork',
    'fork_suspended',
    'hibernate',
    'open',
    'reset',
    'restore',
    'resume',
    'snapshot',
    'suspend',
    'wake',
  ]
  assert.deepEqual([...kinds].sort(), reachable)
})
