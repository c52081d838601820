import { test } from 'node:test'
import { succeeds } from './command.mjs'
import { patience } from '../../tests/support/patience.ts'

// Does not use a cache, because a change in one file may cause a finding in another.
test('the linter finds nothing', { timeout: patience(600_000) }, () => succeeds('oxlint/bin/oxlint', ['--deny-warnings', '.']))
