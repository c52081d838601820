import { test } from 'node:test'
import { goPackages, goTest } from './go.mjs'

// These tests mostly wait, so more of them run at once than there are processors.
test('machine/ without machines', (t) => goTest(t, goPackages().plain, { at_once: 4, parallel: 8, minutes: 15 }))
