import { FakeAgent } from '../gateway/support/fake-agent.ts'
import { FakeTerminal } from '../gateway/support/fake-terminal.ts'
import { agentConformance } from './agent-conformance.ts'
import { PRINTED, terminalConformance } from './terminal-conformance.ts'

agentConformance('fake', async () => {
  const agent = await FakeAgent.start()
  agent.follows = true
  return {
    ask: (method, path, body, key = agent.key) =>
      fetch(`http://${agent.address}${path}`, {
        method,
        headers: { authorization: `Bearer ${key}` },
        ...(body === undefined ? {} : { body: body instanceof Buffer ? new Uint8Array(body) : JSON.stringify(body) }),
      }),
    play(session_id, { stdout, stderr, exit_code }) {
      const session = agent.sessions.get(session_id)
      session?.write('stdout', stdout)
      session?.write('stderr', stderr)
      if (exit_code !== null) session?.exit(exit_code)
    },
    close: () => agent[Symbol.asyncDispose](),
  }
})

const TYPED = 16 + 'word\n'.length // a frame's header, and the word

terminalConformance('fake', async () => {
  const agent = await FakeAgent.start()
  const terminal = new FakeTerminal(agent)
  return {
    address: agent.address,
    headers: { authorization: `Bearer ${agent.key}` },
    async play(step) {
      if (step === 'typed') await terminal.took(TYPED)
      await terminal.print(PRINTED[step])
      if (step === 'typed') await terminal.exit()
    },
    close: () => agent[Symbol.asyncDispose](),
  }
})
