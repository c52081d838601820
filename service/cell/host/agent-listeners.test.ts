import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { AGENT_PROTOCOLS } from '../../../contract/internal/agent.ts'
import { LIMITS } from '../../../contract/limits.ts'
import { openLink } from './agent.ts'
import { AgentFailure } from './agent-failure.ts'
import { UNLIMITED_BUDGET } from './buffer-budget.ts'

/** The listeners that a link reads from this answer of an agent. */
async function listed(said: string): Promise<string[]> {
  const server = createServer((_, response) => response.writeHead(200, { 'content-type': 'application/json' }).end(said))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`
  const opened = openLink({ address, agent_key: 'key', epoch: 1, agent_protocol: AGENT_PROTOCOLS.current })
  try {
    return await opened.link.listListeners(3000, { signal: AbortSignal.timeout(10_000), room: UNLIMITED_BUDGET })
  } finally {
    opened.close()
    server.closeAllConnections()
    server.close()
  }
}

test('an agent may name IPv4 and IPv6 addresses', async () => {
  assert.deepEqual(await listed('{"addresses":["127.0.0.1","::1"]}'), ['127.0.0.1', '::1'])
  assert.deepEqual(await listed('{"addresses":[]}'), [])
})

test('invalid addresses, too many addresses and oversized answers of an agent are refused', async () => {
  const many = Array.from({ length: LIMITS.port.addresses_max + 1 }, () => '127.0.0.1')
  for (const said of [
    '{"addresses":["<script>"]}',
    '{"addresses":["127.0.0.1:3000"]}',
    `{"addresses":["${'1'.repeat(100)}"]}`,
    `{"addresses":${JSON.stringify(many)}}`,
    '{"addresses":null}',
    '{}',
    '[]',
    ' '.repeat(1 << 20),
  ])
    await assert.rejects(listed(said), (error) => error instanceof AgentFailure && error.kind === 'nonsense', said.slice(0, 50))
})
