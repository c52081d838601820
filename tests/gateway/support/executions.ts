import type { Execution } from '../../../contract/schemas/cell/execution.ts'
import type { FakeSession } from './fake-agent.ts'
import type { Bench } from './gateway.ts'

/** What a command of a test does: it has its machine's files, by their paths below /home/user, and the agent's session. */
export type Play = (session: FakeSession, files: Map<string, string>) => Promise<void> | void

export const subjectOf = (bench: Bench) => ({ kind: 'execution', id: bench.workspace_id }) as const

/** Commands of the bench's workspace. Each that is started is played by `play`, which a test changes. */
export function executionCalls(bench: () => Bench) {
  const stage: { play: Play } = { play: (session) => session.exit(0) }
  let count = 0
  /** To be called once, when there is a bench. */
  const direct = () => {
    const { sessions } = bench().agent
    bench().agent.follows = true
    const set = sessions.set.bind(sessions)
    sessions.set = (id, session) => {
      set(id, session)
      // Each is a machine of its own, with an agent of its own.
      queueMicrotask(() => sessions.delete(id))
      const { files } = bench().machine_host.guest(subjectOf(bench()))
      setImmediate(() => void stage.play(session, files))
      return sessions
    }
  }
  const fresh = () => `execution-${String((count += 1)).padStart(4, '0')}`
  const start = (json: object, init: RequestInit = {}) => bench().call('POST', '/exec', { json: { argv: ['true'], ...json }, ...init })
  const find = (id: string) => bench().call('GET', `/executions/${id}`)
  /** Runs one to its end. */
  const run = async (json: object = {}): Promise<Execution> => (await (await start({ execution_id: fresh(), ...json })).json()) as Execution
  /** As `play`, for as long as it is used. */
  const playing = (play: Play): Disposable => {
    const before = stage.play
    stage.play = play
    return { [Symbol.dispose]: () => void (stage.play = before) }
  }
  return { direct, fresh, start, find, run, playing }
}

export const outOf = ({ stdout }: Pick<Execution, 'stdout'>) => Buffer.from(stdout, 'base64').toString()
