import { test } from 'node:test'
import { succeeds } from './command.mjs'

test('every file has the types it says', { timeout: 300_000 }, () => succeeds('tsc', ['--noEmit', '--pretty', 'false']))
