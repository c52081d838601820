import { test } from 'node:test'
import { succeeds } from './command.mjs'

test('eslint finds nothing', { timeout: 600_000 }, () => succeeds('eslint', ['.', '--max-warnings', '0']))
