import { test } from 'node:test'
import { succeeds } from './command.mjs'

test('every file is written as the formatter writes it', () => succeeds('oxfmt/bin/oxfmt', ['--check', '.']))
