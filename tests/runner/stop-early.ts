// Loaded before every test file (`--import`): after three failures the other tests are not run. With a broken service each would wait for
// its timeout.
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
