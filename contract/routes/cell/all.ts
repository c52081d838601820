import type { CellRoute } from '../../route.ts'
import { changesList } from './changes.ts'
import { execAttach } from './attach.ts'
import { browserContent, browserScreenshot } from './browser.ts'
import { execCancel, execGet, execList, execOutput, execSignal, execStart, execStdin } from './exec.ts'
import { executionsGet, executionsList } from './executions.ts'
import { filesList, filesMkdir, filesMove, filesPatch, filesRead, filesRemove, filesSearch, filesStat, filesWrite } from './files.ts'
import { gitClone, gitCommit, gitStatus } from './git.ts'
import { idleGet, keepalive, wakeHint } from './idle.ts'
import { ptyAttach, ptyClose, ptyGet, ptyInput, ptyList, ptyOpen, ptyResize } from './pty.ts'
import { filesTarRead, filesTarWrite } from './tar.ts'
import { filesWatch } from './watch.ts'
import { treeDiff, treeRestore, treeRevisions } from './tree.ts'
import { processList, processSignal } from './processes.ts'

export const CELL_ROUTES: readonly CellRoute[] = [
  execStart,
  execList,
  execGet,
  execOutput,
  execSignal,
  execStdin,
  execCancel,
  executionsList,
  executionsGet,
  filesRead,
  filesWrite,
  filesRemove,
  filesStat,
  filesList,
  filesMkdir,
  filesMove,
  filesSearch,
  filesPatch,
  filesTarRead,
  filesTarWrite,
  filesWatch,
  treeRevisions,
  treeDiff,
  treeRestore,
  changesList,
  keepalive,
  wakeHint,
  idleGet,
  execAttach,
  ptyOpen,
  ptyList,
  ptyGet,
  ptyClose,
  ptyResize,
  ptyInput,
  ptyAttach,
  processList,
  processSignal,
  gitClone,
  gitStatus,
  gitCommit,
  browserScreenshot,
  browserContent,
]
