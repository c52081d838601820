import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AGENT_PROTOCOLS } from '../../../contract/internal/agent.ts'
import type { AgentLink } from './agent-link.ts'
import { linkOf } from './agent-protocol.ts'

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
