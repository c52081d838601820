import { test } from 'node:test'
import { goPackages, goTest } from './go.mjs'

test('machine/ without machines', (t) => goTest(t, goPackages().plain, ['-p', '2', '-timeout', '10m']))
