import { test } from 'node:test'
import { goPackages, goTest } from './go.mjs'

test('hostd with machines', (t) => goTest(t, goPackages().hostd, { at_once: 1, parallel: 2, minutes: 20 }))
