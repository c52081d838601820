import { test } from 'node:test'
import { goPackages, goTest } from './go.mjs'

test('machine/ with machines', (t) => goTest(t, goPackages().machines, { at_once: 1, minutes: 25 }))
