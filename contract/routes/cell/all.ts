import { routesIn, type RoutesById } from '../../route.ts'
import * as attach from './attach.ts'
import * as browser from './browser.ts'
import * as changes from './changes.ts'
import * as exec from './exec.ts'
import * as executions from './executions.ts'
import * as files from './files.ts'
import * as git from './git.ts'
import * as idle from './idle.ts'
import * as processes from './processes.ts'
import * as pty from './pty.ts'
import * as tar from './tar.ts'
import * as tree from './tree.ts'
import * as watch from './watch.ts'

const MODULES = {
  ...attach,
  ...browser,
  ...changes,
  ...exec,
  ...executions,
  ...files,
  ...git,
  ...idle,
  ...processes,
  ...pty,
  ...tar,
  ...tree,
  ...watch,
}

export type CellRoutes = RoutesById<typeof MODULES, 'cell'>

export const CELL_ROUTES = routesIn(MODULES, 'cell')
