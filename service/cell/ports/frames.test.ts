import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseFrame } from './frames.ts'

test('a tally keeps valid counts of known reasons and drops the rest', () => {
  const refused = { bad_request: 3, host_unknown: 0, app_timeout: -1, nobody: 7, constructor: 1, credential_invalid: 1.5, unavailable: 2 }
  assert.deepEqual(parseFrame(JSON.stringify({ tally: { connections: 4, turned_away: 1, refused } })), {
    tally: {
      connections: 4,
      turned_away: 1,
      refused: [
        ['bad_request', 3],
        ['unavailable', 2],
      ],
    },
  })
  const none = { tally: { connections: 0, turned_away: 0, refused: [] } }
  assert.deepEqual(parseFrame('{"tally":{"connections":0,"turned_away":0,"refused":null}}'), none)
  assert.equal(parseFrame('{"tally":{"connections":-1,"turned_away":0,"refused":{}}}'), null)
})

test('a look names its lease', () => {
  assert.deepEqual(parseFrame('{"look":{"id":1,"lease":2}}'), { look: { id: 1, lease: 2 } })
  for (const bad of ['{"look":{"id":1}}', '{"look":{"id":-1,"lease":2}}', '{"look":null}']) assert.equal(parseFrame(bad), null)
})
