import assert from 'node:assert/strict'
import { test } from 'node:test'
import pino from 'pino'
import { systemClock } from '../../../lib/clock.ts'
import { createIds } from '../../../lib/ids.ts'
import { mintToken, mintTokenOrNull, type MintDeps, type TokenRequest } from './mint.ts'

const ids = createIds(systemClock)
const [id, organization_id, project_id, key] = [ids.next(), ids.next(), ids.next(), ids.next()]
const workspace = { id, organization_id, project_id, cell_endpoint: 'http://cell.test', ownership_epoch: 1 }
const who: TokenRequest['who'] = { type: 'api_key', id: key, key_id: 'k', organization_id, project_id, tool_permissions: ['exec'] }
const wish: TokenRequest = { who, now: new Date(0), agent_label: undefined, tools: ['exec'] }
const by = { actor: { kind: 'api_key', id: key }, request_id: 'r', source_address: null, ids, now: new Date(0) } as const

/** @param session undefined: the budget is exhausted. */
function mint(signs: boolean, session?: string) {
  const seen: string[] = []
  const deps: MintDeps = {
    clock: systemClock,
    ids,
    base_url: 'http://api.test',
    logger: pino({ level: 'silent' }),
    reads: {
      rows: async <Row>(name: string) => {
        seen.push(name)
        const rows: unknown[] = name === 'tool_tokens.count' && session !== undefined ? [{ id: session }] : []
        return rows as Row[] // the rows of the faked statement
      },
    },
    signer: {
      sign: async ({ sid }) => {
        seen.push(sid === session ? 'signed for the session' : 'signed')
        if (!signs) throw new Error('The key is gone')
        return { token: 't', kid: 'k' }
      },
      close: () => undefined,
    },
  }
  return { deps, seen }
}

test('a token whose signing fails is not counted', async () => {
  const { deps, seen } = mint(false)
  await assert.rejects(mintToken(deps, workspace, wish, by), { code: 'dependency_unavailable', reason: 'signing_failed' })
  assert.equal(await mintTokenOrNull(deps, workspace, wish, by), null)
  assert.deepEqual(seen, ['signed', 'signed'])
})

test('a token over the budget is refused with the time until it refills', async () => {
  const { deps, seen } = mint(true)
  await assert.rejects(mintToken(deps, workspace, wish, by), { code: 'rate_limited' })
  assert.deepEqual(seen, ['signed', 'tool_tokens.count', 'tool_tokens.budget'])
})

test('a token for an existing session carries that session', async () => {
  const session = ids.next()
  const { deps, seen } = mint(true, session)
  assert.equal((await mintToken(deps, workspace, wish, by)).agent_session_id, session)
  assert.deepEqual(seen, ['signed', 'tool_tokens.count', 'signed for the session'])
})
