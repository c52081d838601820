import { test } from 'node:test'
import { goPackages, goTest } from './go.mjs'

test('machine/ with machines', (t) => goTest(t, goPackages().machines, { at_once: 1, parallel: 2, minutes: 25 }))
