import type { Logger } from 'pino'
import { browserContent, browserScreenshot } from '../../../contract/routes/cell/browser.ts'
import { execCancel, execGet, execList, execOutput, execSignal, execStart, execStdin } from '../../../contract/routes/cell/exec.ts'
import { executionsGet, executionsList } from '../../../contract/routes/cell/executions.ts'
import { changesList } from '../../../contract/routes/cell/changes.ts'
import {
  filesList,
  filesMkdir,
  filesMove,
  filesPatch,
  filesRead,
  filesRemove,
  filesSearch,
  filesStat,
  filesWrite,
} from '../../../contract/routes/cell/files.ts'
import { execAttach } from '../../../contract/routes/cell/attach.ts'
import { idleGet, keepalive, wakeHint } from '../../../contract/routes/cell/idle.ts'
import { ptyAttach, ptyClose, ptyGet, ptyInput, ptyList, ptyOpen, ptyResize } from '../../../contract/routes/cell/pty.ts'
import { gitClone, gitCommit, gitStatus } from '../../../contract/routes/cell/git.ts'
import { processList, processSignal } from '../../../contract/routes/cell/processes.ts'
import { filesTarRead, filesTarWrite } from '../../../contract/routes/cell/tar.ts'
import { filesWatch } from '../../../contract/routes/cell/watch.ts'
import { treeDiff, treeRestore, treeRevisions } from '../../../contract/routes/cell/tree.ts'
import { LIMITS } from '../../../contract/limits.ts'
import type { CellRoute } from '../../../contract/route.ts'
import type { Db } from '../../db/database.ts'
import type { Listener } from '../../db/listen.ts'
import { bind, type Bound } from '../../http/call.ts'
import { createServer, type Observation } from '../../http/pipeline.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Ids } from '../../lib/ids.ts'
import type { AgentLinks } from '../host/agent.ts'
import { AGENT_DEADLINES, type AgentDeadlines } from '../host/agent-http.ts'
import type { BufferBudgets } from '../host/buffer-budget.ts'
import { cancelSuspend } from '../machines/cancel-suspend.ts'
import type { AskActivity } from '../machines/activity-query.ts'
import type { ShowResidency } from '../machines/show-residency.ts'
import type { Waking } from '../machines/parking.ts'
import { tickEvery } from '../../lib/poll.ts'
import type { Secrets } from '../policies/secrets/resolve.ts'
import type { MachineTable } from '../machines/table.ts'
import type { Executions } from '../filetree/executions/executions.ts'
import type { Trees } from '../filetree/trees/trees.ts'
import { attachExec } from './attach/exec.ts'
import { readContent } from './browser/content.ts'
import { takeScreenshot } from './browser/screenshot.ts'
import { createDiskReads, type DiskHost } from '../admission/disk/reads.ts'
import { listExecs } from './exec/list.ts'
import { readOutput } from './exec/output.ts'
import { cancelExec, getExec, signalExec } from './exec/session.ts'
import { startExec } from './exec/start.ts'
import { sendStdin } from './exec/stdin.ts'
import { getExecution } from '../filetree/execution-calls/get.ts'
import { listExecutions } from '../filetree/execution-calls/list.ts'
import { runExecution } from '../filetree/execution-calls/run.ts'
import { listChanges } from './changes/list.ts'
import { patchFile } from './files/patch.ts'
import { readFile } from './files/read.ts'
import { searchFiles } from './files/search.ts'
import { readTar, writeTar } from './files/tar.ts'
import { listFiles, makeDirectory, moveFile, removeFile, statFile } from './files/tree.ts'
import { watchFiles } from './files/watch.ts'
import { writeFile } from './files/write.ts'
import { openApiKeys } from '../admission/api-keys.ts'
import { createAdmissionControl } from '../admission/gate.ts'
import { openVerificationKeys } from '../admission/keys.ts'
import { openPeople } from '../admission/people.ts'
import type { CallPermits } from '../admission/call-permits.ts'
import type { Signatures } from '../admission/signatures.ts'
import type { CallLease } from '../admission/call-lease.ts'
import { createToolUses, FLUSH_MS } from '../admission/tool-usage.ts'
import { cloneRepository } from './git/clone.ts'
import { commitChanges } from './git/commit.ts'
import { readStatus } from './git/status.ts'
import type { GatewayDeps, GatewayHandler } from './handler.ts'
import { getIdle } from './idle/get.ts'
import { keepAlive } from './idle/keepalive.ts'
import { hintWake } from './idle/wake-hint.ts'
import { attachTerminal } from './pty/attach.ts'
import { listTerminals } from './pty/list.ts'
import { openTerminal } from './pty/open.ts'
import { closeTerminal, getTerminal, resizeTerminal, typeIntoTerminal } from './pty/session.ts'
import { byMode, revisionHeaders } from '../filetree/tree-calls/calls.ts'
import { makeTreeDirectory, moveTreeFile, removeTreeFile } from '../filetree/tree-calls/change.ts'
import { diffRevisions, listRevisions, restoreRevision } from '../filetree/tree-calls/history.ts'
import { listTreeFiles, readTreeFile, statTreeFile } from '../filetree/tree-calls/read.ts'
import { readTreeTar, writeTreeTar } from '../filetree/tree-calls/tar.ts'
import { searchTreeFiles } from '../filetree/tree-calls/search.ts'
import { patchTreeFile, writeTreeFile } from '../filetree/tree-calls/write.ts'
import { listProcesses } from './processes/list.ts'
import { signalProcess } from './processes/signal.ts'

export interface GatewayOptions {
  listen: { host: string; port: number }
  table: MachineTable
  host: DiskHost
  agents: AgentLinks
  waking: Waking
  showResidency: ShowResidency
  /** Counts as the cell's own call, so that reading the idle state keeps no machine awake. */
  ask_activity: AskActivity
  secrets: Secrets
  trees: Trees
  executions: Executions
  db: Db
  listener: Listener
  clock: Clock
  ids: Ids
  log: Logger
  cell_id: string
  /** `iss` of tool tokens: the public address of the api. */
  issuer: string
  /** `aud` of tool tokens: the public address of this cell. */
  endpoint: string
  cors_origins?: readonly string[]
  observe?: (seen: Observation) => void
  /** Tests: refuse answers that the contract does not declare. */
  validate_answers?: boolean
  /** Tests: shorter waits. */
  agent_deadlines?: AgentDeadlines
  drain_ms?: number
  reader_stalled_ms?: number
  signatures?: Signatures
  places?: CallPermits
  rooms?: BufferBudgets
}

/** Time for running calls to end, and for readers to take their data. */
const DRAIN_MS = 5000

export interface Gateway {
  address: string
  /** Refuses new calls, and ends streams with an event. */
  drain(): void
  close(): Promise<void>
}

export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const { db, listener, clock, table, ids } = options
  const keys = await openVerificationKeys(db, listener, clock)
  const api_keys = openApiKeys(db, listener)
  const people = openPeople(db, listener, clock)
  const disks = createDiskReads({
    host: options.host,
    table,
    clock,
    ...(options.agent_deadlines ? { deadlines: options.agent_deadlines } : {}),
  })
  const uses = createToolUses({ db, clock, ids, log: options.log })
  const unwritten = (error: unknown) => options.log.warn({ err: error }, 'who used which tool was not written yet')
  const closing = new AbortController()
  tickEvery(FLUSH_MS, uses.flush, unwritten, closing.signal)
  const gate = createAdmissionControl({
    table,
    uses,
    disks,
    waking: options.waking,
    cancelSuspend: (asked, tool_call_at) => cancelSuspend(db, asked, tool_call_at),
    keys,
    api_keys,
    people,
    agents: options.agents,
    clock,
    cell_id: options.cell_id,
    issuer: options.issuer,
    audience: options.endpoint,
    ...(options.signatures ? { signatures: options.signatures } : {}),
    ...(options.places ? { places: options.places } : {}),
    ...(options.rooms ? { rooms: options.rooms } : {}),
  })
  const server = createServer<GatewayDeps, CallLease>({
    surface: 'cell',
    routes: ROUTES,
    deps: {
      db,
      table,
      ids,
      waking: options.waking,
      showResidency: options.showResidency,
      ask_activity: options.ask_activity,
      secrets: options.secrets,
      trees: options.trees,
      executions: options.executions,
      agent_idle_ms: (options.agent_deadlines ?? AGENT_DEADLINES).idle_ms,
    },
    reader_stalled_ms: options.reader_stalled_ms ?? LIMITS.stream.stalled_seconds_max * 1000,
    clock,
    ids,
    logger: options.log,
    ...(options.cors_origins ? { cors_origins: options.cors_origins } : {}),
    authenticate: (arrival) => gate.authenticate(arrival),
    admit: (arrival, who) => gate.admit(arrival, who),
    refusalHeaders: revisionHeaders(options),
    ...(options.observe ? { observe: options.observe } : {}),
    ...(options.validate_answers ? { validate_answers: true } : {}),
  })
  const address = await server.listen(options.listen)
  return {
    address,
    drain: () => gate.drain(),
    async close() {
      gate.drain()
      // A stalled reader would delay the close for ever.
      const late = setTimeout(() => server.breakOff(), options.drain_ms ?? DRAIN_MS)
      await server.close()
      clearTimeout(late)
      closing.abort()
      await uses.flush().catch(unwritten)
      api_keys.close()
      people.close()
      keys.close()
      disks.close()
    },
  }
}

const ROUTES: readonly Bound<GatewayDeps, CallLease>[] = [
  route(execStart, byMode(startExec, runExecution)),
  route(execList, listExecs),
  route(execGet, getExec),
  route(execOutput, readOutput),
  route(execStdin, sendStdin),
  route(execSignal, signalExec),
  route(execCancel, cancelExec),
  route(executionsList, listExecutions),
  route(executionsGet, getExecution),
  route(filesRead, byMode(readFile, readTreeFile)),
  route(filesWrite, byMode(writeFile, writeTreeFile)),
  route(filesRemove, byMode(removeFile, removeTreeFile)),
  route(filesStat, byMode(statFile, statTreeFile)),
  route(filesList, byMode(listFiles, listTreeFiles)),
  route(filesMkdir, byMode(makeDirectory, makeTreeDirectory)),
  route(filesMove, byMode(moveFile, moveTreeFile)),
  route(filesSearch, byMode(searchFiles, searchTreeFiles)),
  route(filesPatch, byMode(patchFile, patchTreeFile)),
  route(filesTarRead, byMode(readTar, readTreeTar)),
  route(filesTarWrite, byMode(writeTar, writeTreeTar)),
  route(filesWatch, watchFiles),
  route(treeRevisions, listRevisions),
  route(treeDiff, diffRevisions),
  route(treeRestore, restoreRevision),
  route(changesList, listChanges),
  route(keepalive, keepAlive),
  route(wakeHint, hintWake),
  route(idleGet, getIdle),
  route(execAttach, attachExec),
  route(ptyOpen, openTerminal),
  route(ptyList, listTerminals),
  route(ptyGet, getTerminal),
  route(ptyClose, closeTerminal),
  route(ptyResize, resizeTerminal),
  route(ptyInput, typeIntoTerminal),
  route(ptyAttach, attachTerminal),
  route(processList, listProcesses),
  route(processSignal, signalProcess),
  route(gitClone, cloneRepository),
  route(gitStatus, readStatus),
  route(gitCommit, commitChanges),
  route(browserScreenshot, takeScreenshot),
  route(browserContent, readContent),
]

/** Forgets the handler's lease type. Safe: admission builds the lease that `TicketOf` declares, from the same facts of the route. */
function route<R extends CellRoute>(declared: R, handler: GatewayHandler<R>): Bound<GatewayDeps, CallLease> {
  return bind(declared, handler)
}
