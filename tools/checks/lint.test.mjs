import { test } from 'node:test'
import { succeeds } from './command.mjs'

test('eslint finds nothing', { timeout: 600_000 }, () => succeeds('eslint', ['.', '--max-warnings', '0']))

test('every file is written as prettier writes it', { timeout: 300_000 }, () =>
  succeeds('prettier', ['--check', '--log-level', 'warn', '.']),
)
