import type { GitRequest } from '../../../contract/internal/agent-tools.ts'
import { GitCommitted, GitFile, GitHead, GitStatus } from '../../../contract/schemas/cell/git.ts'
import { Process, ProcessList } from '../../../contract/schemas/cell/process.ts'
import { type AnswerSize, type CallBounds, shape, type Shape } from './agent-answer.ts'
import { ask, done, get, json, LIST, query, REFUSAL, stream, timed, type AgentRoute } from './agent-calls.ts'
import type { AgentLink } from './agent-link.ts'
import { listeners } from './agent-shapes.ts'

const processList = shape(ProcessList)
const process = shape(Process)
const gitHead = shape(GitHead)
const gitStatus = shape(GitStatus)
const gitFile = shape(GitFile)
const gitCommitted = shape(GitCommitted)

type ToolCalls = Pick<
  AgentLink,
  'cloneRepository' | 'gitStatus' | 'commitChanges' | 'openBrowser' | 'listListeners' | 'listProcesses' | 'signalProcess'
>

export function toolCalls(route: AgentRoute): ToolCalls {
  return {
    cloneRepository: (asked, bounds) => work(route, '/git/clone', asked, gitHead, bounds),
    async gitStatus(asked, bounds) {
      const status = await work(route, '/git/status', asked, gitStatus, bounds, LIST)
      return { ...status, files: status.files.map((each) => gitFile.parse(each)) }
    },
    commitChanges: (asked, bounds) => work(route, '/git/commit', asked, gitCommitted, bounds),
    openBrowser: (what, visit, bounds) => stream(route, timed(route, `/browser/${what}`, visit), bounds),
    listListeners: async (port, bounds) => (await get(route, `/listeners?${query({ port })}`, listeners, bounds, REFUSAL)).addresses,
    async listProcesses(limit, bounds) {
      const { processes, truncated } = await get(route, `/processes?${query({ limit })}`, processList, bounds, LIST)
      return { processes: processes.map((each) => process.parse(each)), truncated }
    },
    signalProcess: (pid, signal, bounds) =>
      done(route, { method: 'POST', path: `/processes/${pid}/signal`, safe: false, body: json({ signal }) }, bounds),
  }
}

async function work<T>(
  route: AgentRoute,
  path: string,
  body: GitRequest,
  wanted: Shape<T>,
  bounds: CallBounds,
  size?: AnswerSize,
): Promise<T> {
  return (await ask(route, timed(route, path, body), wanted, bounds, size)).body
}
