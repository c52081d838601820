import { join } from 'node:path'
import { test } from 'node:test'
import { CACHE, succeeds } from './command.mjs'
import { patience } from '../../tests/support/patience.ts'

/** By content: a clone and a merge write other times. */
const CACHED = ['--cache', '--cache-strategy', 'content', '--cache-location', join(CACHE, 'prettier.json')]

test('every file is written as prettier writes it', { timeout: patience(300_000) }, () =>
  succeeds('prettier/bin/prettier.cjs', ['--check', '--log-level', 'warn', ...CACHED, '.']),
)
