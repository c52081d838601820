import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { GO_FLAGS, goEnvironment } from '../setup/binaries.mjs'
import { MACHINE } from './go.mjs'
import { patience } from '../../tests/support/patience.ts'

test('go vet and gofmt find nothing in machine/', { timeout: patience(600_000) }, () => {
  const vet = spawnSync('go', ['vet', ...GO_FLAGS, './...'], { cwd: MACHINE, encoding: 'utf8', env: goEnvironment() })
  assert.equal(vet.status, 0, `${vet.error?.message ?? ''}${vet.stdout}${vet.stderr}`)
  const format = spawnSync('gofmt', ['-l', 'cmd', 'internal', 'runsc'], { cwd: MACHINE, encoding: 'utf8' })
  assert.equal(`${format.stdout}${format.stderr}`, '', 'these files are not written as gofmt writes them')
})
