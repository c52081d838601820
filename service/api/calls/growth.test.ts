import assert from 'node:assert/strict'
import { test } from 'node:test'
import { APP_ROUTES } from '../../../contract/routes/app/all.ts'
import { GROWING_ROUTES, ROUTES_THAT_GO_ON } from './growth.ts'

test('every changing route declares whether it continues when the disk is nearly full', () => {
  const changing = APP_ROUTES.filter(({ method }) => method !== 'GET' && method !== 'DELETE').map(({ id }) => id)
  assert.deepEqual([...GROWING_ROUTES, ...ROUTES_THAT_GO_ON].sort(), changing.sort())
})
