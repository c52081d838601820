import { startService, type Service } from '../support/service.ts'
import { heldRow, readRows } from './http.ts'
import { execRow, forkRows, openRow, resumeRows, suspendRows } from './machines.ts'

/** `npm run bench -- NAME …`: each measures its rows of the table of performance against a whole service of its own. */
const BENCHES: Record<string, (service: Service) => Promise<void>> = {
  exec: execRow,
  read: readRows,
  open: openRow,
  suspend: suspendRows,
  resume: resumeRows,
  fork: forkRows,
  held: heldRow,
}

const names = process.argv.slice(2)
const unknown = names.filter((name) => !Object.hasOwn(BENCHES, name))
if (unknown.length > 0) {
  console.error(`There is no benchmark ${unknown.join(', ')}: choose of ${Object.keys(BENCHES).join(', ')}`)
  process.exit(2)
}
const service = await startService({ settings: { pool_image_gib: 16, slots: 2, shells: 2 } })
try {
  for (const [name, bench] of Object.entries(BENCHES)) {
    if (names.length === 0 || names.includes(name)) await bench(service)
  }
} finally {
  await service.stop()
}
