import type { Execution } from '../../../contract/schemas/cell/execution.ts'
import type { FakeSession } from './fake-agent.ts'
import type { Bench } from './gateway.ts'

export type Play = (session: FakeSession, files: Map<string, string>) => Promise<void> | void

export const subjectOf = (bench: Bench) => ({ kind: 'execution', id: bench.workspace_id }) as const

export function executionCalls(bench: () => Bench) {
  const stage: { play: Play } = { play: (session) => session.exit(0) }
  let count = 0
  /** Call once, when the bench exists. */
  const direct = () => {
    const { sessions } = bench().agent
    bench().agent.follows = true
    const set = sessions.set.bind(sessions)
    sessions.set = (id, session) => {
      set(id, session)
      // Removed, because each execution has its own machine with its own agent.
      queueMicrotask(() => sessions.delete(id))
      const { files } = bench().machine_host.guest(subjectOf(bench()))
      setImmediate(() => void stage.play(session, files))
      return sessions
    }
  }
  const fresh = () => `execution-${String((count += 1)).padStart(4, '0')}`
  const start = (json: object, init: RequestInit = {}) => bench().call('POST', '/exec', { json: { argv: ['true'], ...json }, ...init })
  const find = (id: string) => bench().call('GET', `/executions/${id}`)
  const run = async (json: object = {}): Promise<Execution> => (await (await start({ execution_id: fresh(), ...json })).json()) as Execution
  const playing = (play: Play): Disposable => {
    const before = stage.play
    stage.play = play
    return { [Symbol.dispose]: () => void (stage.play = before) }
  }
  return { direct, fresh, start, find, run, playing }
}

export const outOf = ({ stdout }: Pick<Execution, 'stdout'>) => Buffer.from(stdout, 'base64').toString()
