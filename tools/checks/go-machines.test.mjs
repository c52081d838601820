import { test } from 'node:test'
import { goPackages, goTest } from './go.mjs'

test('machine/ with machines', (t) => goTest(t, goPackages().machines, ['-p', '1', '-timeout', '15m']))
