import { join } from 'node:path'
import { test } from 'node:test'
import { CACHE, succeeds } from './command.mjs'
import { patience } from '../../tests/support/patience.ts'

// The compiler notes the digest of each file and what depends on it, and checks what a change reaches.
const INCREMENTAL = ['--incremental', '--tsBuildInfoFile', join(CACHE, 'types.tsbuildinfo')]
/** A second one would take a processor from another file, and check some types once more. */
const CHECKERS = ['--checkers', '1']

test('every file has the types it says', { timeout: patience(300_000) }, () =>
  succeeds('typescript-native/bin/tsc', ['--noEmit', '--pretty', 'false', ...INCREMENTAL, ...CHECKERS]),
)
