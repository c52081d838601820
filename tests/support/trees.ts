import { rmSync } from 'node:fs'
import { serviceOrigin } from '../../service/core/changes/audit.ts'
import { mutate } from '../../service/core/changes/mutate.ts'
import { insertTreeWorkspace, assignWorkspaceKey } from '../../service/core/workspaces/create-store.ts'
import { digestOf } from '../../service/cell/filetree/trees/blob-files.ts'
import type { FileEntry } from '../../service/cell/filetree/trees/entries.ts'
import { createTrees, type Trees } from '../../service/cell/filetree/trees/trees.ts'
import type { Clock } from '../../service/lib/clock.ts'
import { createIds } from '../../service/lib/ids.ts'
import { seeder } from '../api/support.ts'
import { freshDatabase, type TestDatabase } from './postgres.ts'
import { treesFolder } from './trees-folder.ts'

const RESOURCES = { cpu_millis: 1000, memory_mib: 512, disk_gib: 1 }

export interface TreesBed extends AsyncDisposable {
  database: TestDatabase
  folder: string
  cell_id: string
  clock: Clock & { ahead_ms: number }
  trees: Trees
  second(): Trees
  open(): Promise<string>
}

export async function treesBed(): Promise<TreesBed> {
  const database = await freshDatabase()
  const folder = treesFolder()
  const clock = { ahead_ms: 0, now: () => new Date(Date.now() + clock.ahead_ms), monotonic_ms: () => performance.now() + clock.ahead_ms }
  const ids = createIds(clock)
  const seeds = seeder(database, clock, ids)
  const { organization_id, project_id } = await seeds.tenant('acme', await seeds.plan('unlimited'))
  const cell_id = await seeds.cell('one')
  await seeds.template(null, 'base', { env: {}, inputs: {}, defaults: RESOURCES, ceiling: RESOURCES })
  const { id: template_version_id } = await database.superuser.selectFrom('template_versions').select('id').executeTakeFirstOrThrow()
  const second = () => createTrees({ db: database.cell, clock, folder })
  return {
    database,
    folder,
    cell_id,
    clock,
    trees: second(),
    second,
    async open() {
      const [id, now] = [ids.next(), clock.now()]
      const owner = { organization_id, project_id }
      const terms = {
        lifetime: 'persistent',
        purpose: 'standard',
        disk_layout: 'layered',
        origin: null,
        idle_policy: null,
        background_seconds: null,
      } as const
      const workspace = {
        id,
        ...owner,
        ...terms,
        key: id,
        template_version_id,
        caps: {},
        ceilings: RESOURCES,
        inputs: {},
        startup: null,
        cell_id,
        now,
      }
      const by = serviceOrigin('setup', { ids, now })
      await mutate(
        database.api,
        by,
        'tests.seed',
        async (tx) => {
          await assignWorkspaceKey(tx, owner, id, id, null)
          await insertTreeWorkspace(tx, { ...workspace, mode: 'file_first', observed_state: 'running' })
        },
        () => null,
      )
      return id
    },
    async [Symbol.asyncDispose]() {
      await database[Symbol.asyncDispose]()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

export function textFile(text: string, modified_ms = 1): { entry: FileEntry; content: Buffer } {
  const content = Buffer.from(text)
  const sha256 = digestOf(content)
  return { entry: { type: 'file', mode: 0o644, modified_ms, size: content.length, content: sha256, sha256 }, content }
}
