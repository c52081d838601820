import { test } from 'node:test'
import { succeeds } from './command.mjs'
import { patience } from '../../tests/support/patience.ts'

// It keeps no cache: a finding in one file may have its cause in another.
test('the linter finds nothing', { timeout: patience(600_000) }, () => succeeds('oxlint/bin/oxlint', ['--deny-warnings', '.']))
