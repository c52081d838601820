import type { Service } from '../support/service.ts'
import { auditRows } from './audit.ts'
import { held500Row, listRow, tokenRow } from './api.ts'
import { parallelRow, stalledRow, streamRow } from './exec.ts'
import { fileReadRows, fileWriteRows } from './files.ts'
import { densityRow } from './density.ts'
import { echoRow } from './echo.ts'
import { screenshotRow } from './browser.ts'
import { heldRow, readRows } from './http.ts'
import { exportRows } from './export.ts'
import { executionRows } from './executions.ts'
import { forksRows } from './forks.ts'
import { execRow, forkRows, openColdRow, openRow, resumeRows, suspendRows } from './machines.ts'
import { idleMemoryRow } from './idle-memory.ts'
import { overloadRow } from './overload.ts'
import { parkedRows } from './parked.ts'
import { portLoadRow } from './port-load.ts'
import { portWakeRows } from './port-wakes.ts'
import { portsRow } from './ports.ts'
import { recoveryRow } from './recovery.ts'
import { roomRows } from './capacity.ts'
import { sdkRows } from './sdk.ts'
import { searchRows } from './search.ts'
import { secretlessRows } from './secretless.ts'
import { scaleRows } from './scale.ts'
import { treeRows } from './trees.ts'
import { templateBuildRows } from './template-builds.ts'
import { templateRows } from './templates.ts'
import { usageRows } from './usage.ts'
import { signInRows } from './sign-in.ts'
import { withService } from './with-service.ts'
import { idleTickRow } from './idle-tick.ts'
import { idleReport } from '../simulation/idle/report.ts'

/** `npm run bench -- NAME …`; `suspend:small` measures one guest of a row. */
const BENCHES: Record<string, (service: Service, guest?: string) => Promise<void>> = {
  exec: execRow,
  'exec-parallel': parallelRow,
  stream: streamRow,
  stalled: stalledRow,
  read: readRows,
  open: openRow,
  suspend: suspendRows,
  resume: resumeRows,
  fork: forkRows,
  forks: forksRows,
  held: heldRow,
  list: listRow,
  tokens: tokenRow,
  held500: held500Row,
  scale: scaleRows,
  'file-read': fileReadRows,
  'file-write': fileWriteRows,
  echo: echoRow,
  screenshot: screenshotRow,
  'idle-memory': idleMemoryRow,
  'sign-in': signInRows,
  sdk: sdkRows,
  templates: templateRows,
  'template-builds': templateBuildRows,
}

const ALONE: Record<string, (guest?: string) => void | Promise<void>> = {
  audit: auditRows,
  idle: idleReport,
  'idle-tick': idleTickRow,
  parked: parkedRows,
  ports: portsRow,
  'port-load': portLoadRow,
  'port-wakes': portWakeRows,
  'open-cold': openColdRow,
  density: densityRow,
  executions: executionRows,
  export: exportRows,
  overload: overloadRow,
  recovery: recoveryRow,
  room: roomRows,
  search: searchRows,
  secretless: secretlessRows,
  trees: treeRows,
  usage: usageRows,
}

const asked = new Map(process.argv.slice(2).map((word) => [word.split(':')[0] ?? '', word.split(':')[1]]))
const all = [...Object.keys(BENCHES), ...Object.keys(ALONE)]
const unknown = [...asked.keys()].filter((name) => !all.includes(name))
if (unknown.length > 0) {
  console.error(`There is no benchmark ${unknown.join(', ')}: choose of ${all.join(', ')}`)
  process.exit(2)
}
const chosen = <T>(benches: Record<string, T>) => Object.entries(benches).filter(([name]) => asked.size === 0 || asked.has(name))

for (const [name, bench] of chosen(ALONE)) await bench(asked.get(name))
const served = chosen(BENCHES)
if (served.length > 0) {
  await withService({}, async (service) => {
    for (const [name, bench] of served) await bench(service, asked.get(name))
  })
}
