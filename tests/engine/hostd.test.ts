import { test } from 'node:test'
import { conformance } from './conformance.ts'
import { openRealHost, whatIsMissing } from './real-host.ts'

const missing = whatIsMissing()
if (missing === null) conformance('hostd and runsc', openRealHost)
else test('machine host: hostd and runsc', { skip: missing }, () => undefined)
