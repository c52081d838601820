import { test } from 'node:test'
import { succeeds } from './command.mjs'
import { patience } from '../../tests/support/patience.ts'

// No cache: a finding in one file may be caused by a change in another.
test('the linter finds nothing', { timeout: patience(600_000) }, () => succeeds('oxlint/bin/oxlint', ['--deny-warnings', '.']))
