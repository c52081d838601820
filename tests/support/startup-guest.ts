import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import type { ExecRequest } from '../../contract/internal/agent-runs.ts'
import type { ExecSession } from '../../contract/schemas/cell/session.ts'
import type { AgentLinks } from '../../service/cell/host/agent.ts'
import type { AgentLink } from '../../service/cell/host/agent-link.ts'
import { FRAME } from '../../service/cell/host/output-frames.ts'
import type { Secrets } from '../../service/cell/policies/secrets/resolve.ts'
import { fail } from '../../service/lib/fail.ts'

export type SessionOutcome = { exit: number; said?: string } | { timed_out: true; said?: string } | 'runs'

export interface StartupGuests {
  agents: Pick<AgentLinks, 'greet' | 'of'>
  link(of: string): AgentLink
  secrets: Pick<Secrets, 'valuesFor' | 'trust'>
  /** Each started command once, in order. */
  started: (ExecRequest & { workspace_id: string })[]
  canceled: string[]
  behave: (name: string, exec: ExecRequest) => SessionOutcome
  values: () => Promise<Record<string, string>>
  listeners: (port: number) => Promise<string[]>
}

export function startupGuests(): StartupGuests {
  const sessions = new Map<string, ExecRequest>()
  const guests: StartupGuests = {
    started: [],
    canceled: [],
    behave: () => ({ exit: 0 }),
    values: () => Promise.resolve({}),
    listeners: () => Promise.resolve([]),
    secrets: {
      valuesFor: async () => ({ values: await guests.values(), authority: null }),
      trust: { bring: () => Promise.resolve(false) },
    },
    agents: { greet: () => undefined, of: (workspace_id) => linkTo(workspace_id) },
    link: (of) => linkTo(of),
  }
  const courseOf = (exec: ExecRequest): SessionOutcome =>
    guests.canceled.includes(exec.session_id) ? { exit: -1 } : guests.behave(nameOf(exec), exec)
  const recordOf = (exec: ExecRequest): ExecSession => {
    const { session_id, argv, cwd, user } = exec
    const course = courseOf(exec)
    const runs = course === 'runs'
    const said = course === 'runs' ? '' : (course.said ?? '')
    return {
      session_id, argv, cwd, user, pid: 7, state: runs ? 'running' : 'exited', exit_code: runs ? null : 'exit' in course ? course.exit : -1,
      term_signal: null, timed_out: !runs && 'timed_out' in course, started_at: null, ended_at: null, error: null,
      stdout_bytes: Buffer.byteLength(said), stderr_bytes: 0, stdout_available_from: 0, stderr_available_from: 0,
    } // prettier-ignore
  }
  const found = (id: string): ExecRequest => {
    const exec = sessions.get(id)
    if (exec === undefined) throw fail('not_found', 'session_not_found', 'There is no such session')
    return exec
  }
  const linkTo = (workspace_id: string): AgentLink => {
    const link: Pick<AgentLink, 'startExec' | 'getExec' | 'cancelExec' | 'openOutput' | 'listListeners'> = {
      listListeners: (port) => guests.listeners(port),
      async startExec(exec) {
        if (!sessions.has(exec.session_id)) guests.started.push({ ...exec, workspace_id })
        sessions.set(exec.session_id, exec)
        return { status: 201, body: recordOf(exec) }
      },
      getExec: async (id) => recordOf(found(id)),
      async cancelExec(id) {
        guests.canceled.push(id)
        return recordOf(found(id))
      },
      async openOutput(id, { stdout_offset }) {
        const course = courseOf(found(id))
        const said = Buffer.from(course === 'runs' ? '' : (course.said ?? '')).subarray(stdout_offset)
        return answerOf(said.length === 0 ? [] : [frame(said, stdout_offset)])
      },
    }
    return link as AgentLink // a start-up uses no other method
  }
  return guests
}

function nameOf({ session_id }: ExecRequest): string {
  return session_id.split('.').slice(1, -1).join('.')
}

function answerOf(body: Buffer[]): IncomingMessage {
  const answer: unknown = Readable.from(body)
  return answer as IncomingMessage
}

/** machine/internal/wire: kind, three zero bytes, length, offset. */
function frame(data: Buffer, offset: number): Buffer {
  const head = Buffer.alloc(FRAME.header_bytes)
  head.writeUInt8(FRAME.stdout, 0)
  head.writeUInt32BE(data.length, 4)
  head.writeBigUInt64BE(BigInt(offset), 8)
  return Buffer.concat([head, data])
}
