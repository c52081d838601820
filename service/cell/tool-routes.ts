import { CELL_ROUTES, type CellRoutes } from '../../contract/routes/cell/all.ts'
import { bindAll, type Bound, type Handler, type HandlersOf } from '../http/call.ts'
import { type TreeDeps, byMode } from './filetree/tree-calls/calls.ts'
import type { TicketOf, CallLease } from './admission/call-lease.ts'
import { getExecution } from './filetree/execution-calls/get.ts'
import { listExecutions } from './filetree/execution-calls/list.ts'
import { runExecution } from './filetree/execution-calls/run.ts'
import { removeTreeFile, makeTreeDirectory, moveTreeFile } from './filetree/tree-calls/change.ts'
import { listRevisions, diffRevisions, restoreRevision } from './filetree/tree-calls/history.ts'
import { readTreeFile, statTreeFile, listTreeFiles } from './filetree/tree-calls/read.ts'
import { searchTreeFiles } from './filetree/tree-calls/search.ts'
import { readTreeTar, writeTreeTar } from './filetree/tree-calls/tar.ts'
import { writeTreeFile, patchTreeFile } from './filetree/tree-calls/write.ts'
import { attachExec } from './gateway/attach/exec.ts'
import { readContent } from './gateway/browser/content.ts'
import { takeScreenshot } from './gateway/browser/screenshot.ts'
import { listChanges } from './gateway/changes/list.ts'
import { listExecs } from './gateway/exec/list.ts'
import { readOutput } from './gateway/exec/output.ts'
import { getExec, signalExec, cancelExec } from './gateway/exec/session.ts'
import { startExec } from './gateway/exec/start.ts'
import { sendStdin } from './gateway/exec/stdin.ts'
import { patchFile } from './gateway/files/patch.ts'
import { readFile } from './gateway/files/read.ts'
import { searchFiles } from './gateway/files/search.ts'
import { readTar, writeTar } from './gateway/files/tar.ts'
import { removeFile, statFile, listFiles, makeDirectory, moveFile } from './gateway/files/tree.ts'
import { watchFiles } from './gateway/files/watch.ts'
import { writeFile } from './gateway/files/write.ts'
import { cloneRepository } from './gateway/git/clone.ts'
import { commitChanges } from './gateway/git/commit.ts'
import { readStatus } from './gateway/git/status.ts'
import { getIdle } from './gateway/idle/get.ts'
import { keepAlive } from './gateway/idle/keepalive.ts'
import { hintWake } from './gateway/idle/wake-hint.ts'
import { listProcesses } from './gateway/processes/list.ts'
import { signalProcess } from './gateway/processes/signal.ts'
import { attachTerminal } from './gateway/pty/attach.ts'
import { listTerminals } from './gateway/pty/list.ts'
import { openTerminal } from './gateway/pty/open.ts'
import { getTerminal, closeTerminal, resizeTerminal, typeIntoTerminal } from './gateway/pty/session.ts'

type CellHandlers = { readonly [Id in keyof CellRoutes]: Handler<CellRoutes[Id], TreeDeps, TicketOf<CellRoutes[Id]>> }

const HANDLERS: CellHandlers = {
  'exec.start': byMode(startExec, runExecution),
  'exec.list': listExecs,
  'exec.get': getExec,
  'exec.output': readOutput,
  'exec.stdin': sendStdin,
  'exec.signal': signalExec,
  'exec.cancel': cancelExec,
  'executions.list': listExecutions,
  'executions.get': getExecution,
  'files.read': byMode(readFile, readTreeFile),
  'files.write': byMode(writeFile, writeTreeFile),
  'files.remove': byMode(removeFile, removeTreeFile),
  'files.stat': byMode(statFile, statTreeFile),
  'files.list': byMode(listFiles, listTreeFiles),
  'files.mkdir': byMode(makeDirectory, makeTreeDirectory),
  'files.move': byMode(moveFile, moveTreeFile),
  'files.search': byMode(searchFiles, searchTreeFiles),
  'files.patch': byMode(patchFile, patchTreeFile),
  'files.tar_read': byMode(readTar, readTreeTar),
  'files.tar_write': byMode(writeTar, writeTreeTar),
  'files.watch': watchFiles,
  'tree.revisions': listRevisions,
  'tree.diff': diffRevisions,
  'tree.restore': restoreRevision,
  'changes.list': listChanges,
  'idle.keepalive': keepAlive,
  'idle.wake-hint': hintWake,
  'idle.get': getIdle,
  'exec.attach': attachExec,
  'pty.open': openTerminal,
  'pty.list': listTerminals,
  'pty.get': getTerminal,
  'pty.close': closeTerminal,
  'pty.resize': resizeTerminal,
  'pty.input': typeIntoTerminal,
  'pty.attach': attachTerminal,
  'processes.list': listProcesses,
  'processes.signal': signalProcess,
  'git.clone': cloneRepository,
  'git.status': readStatus,
  'git.commit': commitChanges,
  'browser.screenshot': takeScreenshot,
  'browser.content': readContent,
}

/**
 * Drops the lease types of handlers. This is safe: admission builds the lease that `TicketOf` declares, from the same facts of the route.
 */
export const TOOL_ROUTES: readonly Bound<TreeDeps, CallLease>[] = bindAll(
  CELL_ROUTES,
  HANDLERS as HandlersOf<CellRoutes, TreeDeps, CallLease>,
)
