import { test } from 'node:test'
import { succeeds } from './command.mjs'

test('every file is written as prettier writes it', { timeout: 300_000 }, () =>
  succeeds('prettier', ['--check', '--log-level', 'warn', '.']),
)
