// Loaded before every test file (`--import`): when three tests of a file have failed, its others are not run. A service that is broken
// would let each of them wait for its own deadline.
import { afterEach, beforeEach } from 'node:test'
import { NOT_RUN } from './record.ts'

const FAILURES_MAX = 3

let failures = 0

afterEach((t) => {
  if ('error' in t && t.error !== null && t.error !== undefined) failures += 1
})

beforeEach(() => {
  if (failures < FAILURES_MAX) return
  throw Object.assign(new Error(`not run: ${FAILURES_MAX} tests of this file had failed`), { code: NOT_RUN })
})
