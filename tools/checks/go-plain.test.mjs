import { test } from 'node:test'
import { goPackages, goTest } from './go.mjs'

test('machine/ without machines', (t) => goTest(t, goPackages().plain, { at_once: 2, minutes: 15 }))
