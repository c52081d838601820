import { join } from 'node:path'
import { test } from 'node:test'
import { CACHE, succeeds } from './command.mjs'
import { patience } from '../../tests/support/patience.ts'

const INCREMENTAL = ['--incremental', '--tsBuildInfoFile', join(CACHE, 'types.tsbuildinfo')]
/** A second type checker would use a processor that other tests need, and would check some types twice. */
const CHECKERS = ['--checkers', '1']

test('every file type-checks', { timeout: patience(300_000) }, () =>
  succeeds('typescript-native/bin/tsc', ['--noEmit', '--pretty', 'false', ...INCREMENTAL, ...CHECKERS]),
)
