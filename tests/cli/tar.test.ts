import assert from 'node:assert/strict'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { holesOf } from '../../cli/src/tar.ts'

let folder: string
const { PATH = '' } = process.env
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'tar-'))
  process.env['PATH'] = folder
})
afterEach(() => {
  process.env['PATH'] = PATH
  rmSync(folder, { recursive: true })
})

const WRITES = ['--sparse', '--format=posix']
for (const [says, expected] of [
  ['echo "tar (GNU tar) 1.35"', { reads: true, writes: WRITES }],
  ['echo "bsdtar 3.7.2 - libarchive 3.7.2 zlib/1.2.13"', { reads: true, writes: [] }],
  ['echo "tar (busybox) 1.36.1"', { reads: false, writes: [] }],
  ['exit 1', { reads: false, writes: [] }],
] as const)
  test(`a tar that answers ${says} is asked to write, and given, the holes that it knows`, async () => {
    writeFileSync(path.join(folder, 'tar'), `#!/bin/sh\n${says}\n`)
    chmodSync(path.join(folder, 'tar'), 0o755)
    assert.deepEqual(await holesOf(), expected)
  })

test('without a tar no holes are sent or requested', async () => {
  assert.deepEqual(await holesOf(), { reads: false, writes: [] })
})
