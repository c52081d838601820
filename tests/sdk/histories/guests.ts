import { once } from 'node:events'
import type { Subject } from '../../../contract/internal/host-subject.ts'
import { subjectName } from '../../../service/cell/host/subject.ts'
import type { Guests } from '../../support/served-host.ts'
import { FakeAgent, type FakeSession } from '../../gateway/support/fake-agent.ts'
import { outputOf, readCommand } from './commands.ts'

const KEY = 'the-key-of-every-agent'
const PIECE_BYTES = 1500

/** Agents of guests. An agent outlives its machine, because a checkpoint contains it. */
export function createGuests(): Guests & AsyncDisposable {
  const agents = new Map<string, Promise<FakeAgent>>()
  const begin = async (like?: FakeAgent): Promise<FakeAgent> => {
    const agent = await FakeAgent.start()
    Object.assign(agent, { key: KEY, follows: true })
    for (const [path, bytes] of like?.files ?? []) agent.files.set(path, bytes)
    for (const [id, session] of like?.sessions ?? []) agent.sessions.set(id, session)
    for (const [key, kept] of like?.kept ?? []) agent.kept.set(key, kept)
    agent.play = (session) => void play(agent, session).catch(() => session.exit(70))
    return agent
  }
  const agentOf = (subject: Subject, like?: Promise<FakeAgent>): Promise<FakeAgent> => {
    const name = subjectName(subject)
    const known = agents.get(name) ?? (like ?? Promise.resolve(undefined)).then(begin)
    agents.set(name, known)
    return known
  }
  return {
    async of(subject) {
      const { address } = await agentOf(subject)
      return { address, agent_key: KEY }
    },
    copied: (from, to) => void agentOf(to, agents.get(subjectName(from))),
    ended: (subject) => void agents.get(subjectName(subject))?.then((agent) => agent.cut()),
    async [Symbol.asyncDispose]() {
      for (const agent of await Promise.all(agents.values())) await agent[Symbol.asyncDispose]()
    },
  }
}

async function play(agent: FakeAgent, session: FakeSession): Promise<void> {
  const command = readCommand(session.request['argv'] as string[])
  const path = `/home/user/runs-${command.name}`
  agent.files.set(path, Buffer.concat([agent.files.get(path) ?? Buffer.alloc(0), Buffer.from('x')]))
  if (command.kind === 'echo') await echo(session)
  else {
    const output = outputOf(command.name, command.bytes)
    for (let at = 0; at < command.bytes; at += PIECE_BYTES) {
      for (const stream of ['stdout', 'stderr'] as const) session.write(stream, output.subarray(at, at + PIECE_BYTES))
      await new Promise((resolve) => setTimeout(resolve, 2))
    }
  }
  session.exit(0)
}

async function echo(session: FakeSession): Promise<void> {
  let at = 0
  for (;;) {
    const fresh = session.stdin?.subarray(at) ?? Buffer.alloc(0)
    at += fresh.length
    if (fresh.length > 0) session.write('stdout', fresh)
    else if (session.stdin_closed) return
    else await once(session, 'change')
  }
}
