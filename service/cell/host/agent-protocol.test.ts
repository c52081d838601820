import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import type { AgentLink } from './agent.ts'
import { AGENT_PROTOCOLS, linkOf } from './agent-protocol.ts'

test('the cell speaks the protocols that hostd accepts', () => {
  const words = readFileSync(new URL('../../../machine/internal/wire/agent.go', import.meta.url), 'utf8')
  const read = (name: string) => Number(new RegExp(`^\\t${name} += (\\d+)$`, 'm').exec(words)?.[1])
  assert.deepEqual({ oldest: read('AgentProtocolMin'), current: read('AgentProtocol') }, AGENT_PROTOCOLS)
})

test('an agent gets only calls and options that its protocol knows', async () => {
  const asked: string[] = []
  const verb = (name: string) => () => Promise.resolve(asked.push(name))
  const whole = { getExec: verb('getExec'), statFile: verb('statFile'), gitStatus: verb('gitStatus'), openTerminal: verb('openTerminal') }
  const link = whole as unknown as AgentLink // these verbs are enough here
  const old = linkOf(link, 1) as unknown as typeof whole
  await old.getExec()
  await old.statFile()
  for (const refused of [old.gitStatus, old.openTerminal])
    await assert.rejects(
      refused,
      (error: { code: string; reason: string }) => `${error.code}/${error.reason}` === 'conflict/guest_feature_unavailable',
    )
  assert.deepEqual(asked, ['getExec', 'statFile'])
  assert.equal(linkOf(link, AGENT_PROTOCOLS.current), link)
})
