import type { CellRoute } from '../../route.ts'
import { execCancel, execGet, execOutput, execSignal, execStart } from './exec.ts'
import { filesList, filesMkdir, filesMove, filesRead, filesRemove, filesStat, filesWrite } from './files.ts'
import { idleGet, keepalive, wakeHint } from './idle.ts'

/** Every route of the gateway. */
export const CELL_ROUTES: readonly CellRoute[] = [
  execStart,
  execGet,
  execOutput,
  execSignal,
  execCancel,
  filesRead,
  filesWrite,
  filesRemove,
  filesStat,
  filesList,
  filesMkdir,
  filesMove,
  keepalive,
  wakeHint,
  idleGet,
]
