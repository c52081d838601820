import { createTrees } from '../../service/cell/filetree/trees/trees.ts'
import { openDatabase } from '../../service/db/database.ts'
import type { DatabaseOptions } from '../../service/db/options.ts'
import { systemClock } from '../../service/lib/clock.ts'
import { armFailpoints } from '../../service/lib/failpoints.ts'
import { textFile } from './trees.ts'

/** Program of service/cell/filetree/trees/faults.test.ts: writes files until it is killed, by a failpoint or by the test. */
const given = JSON.parse(process.argv[2] ?? '') as { database: DatabaseOptions; folder: string; id: string; failpoint: string }
const { database, folder, id, failpoint } = given
const trees = createTrees({ db: openDatabase(database), clock: systemClock, folder })
const begun = (await trees.current(id))?.revision ?? 0
armFailpoints(failpoint === '' ? '' : `${failpoint}:kill9`, { test_switch: true })
for (let i = 0; ; i++) {
  using publication = trees.begin(id)
  const { entry, content } = textFile(`text ${i}`)
  await publication.put([content])
  const { revision } = await publication.publish(begun + i, [{ kind: 'put', path: [`file-${i}`], entry }])
  process.stdout.write(`${revision}\n`)
}
