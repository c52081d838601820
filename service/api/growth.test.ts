import assert from 'node:assert/strict'
import { test } from 'node:test'
import { APP_ROUTES } from '../../contract/routes/app/all.ts'
import { GROWING_ROUTES, ROUTES_THAT_GO_ON } from './growth.ts'

test('of every route that changes something it is said whether it goes on when the disk is nearly full', () => {
  const changing = APP_ROUTES.filter(({ method }) => method !== 'GET' && method !== 'DELETE').map(({ id }) => id)
  assert.deepEqual([...GROWING_ROUTES, ...ROUTES_THAT_GO_ON].sort(), changing.sort())
})
