import { LIMITS } from '../../../../contract/limits.ts'
import type { Changed } from '../../../../contract/schemas/cell/execution.ts'
import type { Db } from '../../../db/database.ts'
import { failpoint } from '../../../lib/failpoints.ts'
import { checkChanges } from '../trees/names.ts'
import { moveTree } from '../trees/store.ts'
import { type EditedTree, editTree, type TreeChange } from '../trees/tree.ts'
import { TreeFull } from '../trees/full.ts'
import { type Publication, TreeMoved } from '../trees/publish.ts'
import { readChanges } from './changes.ts'
import { changedOf, differences } from './differences.ts'
import { EntryReader } from './entries.ts'
import { Unsuccessful } from './outcome.ts'
import type { Output } from './output.ts'
import { type StartedMachine, clear, end, type Run, timed } from './run.ts'
import { endExecution, type Result } from './store.ts'
import { retryWrite } from './retry-write.ts'

/** `edited` is null if the command changed no file. */
interface Next {
  edited: EditedTree | null
  changed: Changed[]
  changed_truncated: boolean
}

/** Commits the revision and the result atomically. The changes are read before the machine is stopped: the stop takes longer. */
export async function publish(run: Run, begun: StartedMachine, output: Output): Promise<Result> {
  const { deps, workspace_id, base } = run
  using publication = deps.trees.begin(workspace_id)
  await failpoint('execution.E4')
  const changes = await timed(run, 'publish', () => changesOf(run, begun, publication))
  await end(run)
  await failpoint('execution.E5')
  const next = changes.length === 0 ? NOTHING : await timed(run, 'publish', () => prepareNext(run, changes, publication))
  await failpoint('execution.E6')
  const { edited, changed, changed_truncated } = next
  const tree_revision = base.revision + (edited === null ? 0 : 1)
  const result: Result = {
    ...ofOutput(output),
    state: 'succeeded',
    tree_revision,
    changed,
    changed_truncated,
    timings: run.timings,
    error: null,
  }
  await retryWrite(() => commit(run, edited, result))
  deps.room.released()
  void clear(run, begun)
  return result
}

const NOTHING: Next = { edited: null, changed: [], changed_truncated: false }

async function changesOf(run: Run, { machine, tree }: StartedMachine, publication: Publication): Promise<TreeChange[]> {
  const { deps, row, base, workspace_id } = run
  const stream = await deps.host.treeChanges({
    subject: machine.subject,
    disk: machine.disk,
    layers: row.layers,
    tree: tree !== null,
    bytes_max: base.bytes_max,
    entries_max: LIMITS.execution.changes_max,
  })
  const blobs = deps.trees.blobs(workspace_id)
  return readChanges(new EntryReader(stream), { blobs }, base.root, (contents) => publication.put(contents))
}

async function prepareNext(run: Run, changes: readonly TreeChange[], publication: Publication): Promise<Next> {
  const { deps, base, workspace_id } = run
  checkChanges(changes)
  const blobs = deps.trees.blobs(workspace_id)
  const edited = await editTree({ blobs }, base.root, changes, deps.clock.now().getTime())
  const { entries = 0, bytes = 0 } = edited.root.page ?? {}
  if (bytes > base.bytes_max && bytes > (base.root.page?.bytes ?? 0)) throw new TreeFull('bytes')
  if (entries > LIMITS.tree.entries_max && entries > (base.root.page?.entries ?? 0)) throw new TreeFull('entries')
  await publication.put(edited.blobs)
  const { changed, changed_truncated, is_same } = await changedBetween(run, edited)
  return is_same ? NOTHING : { edited, changed, changed_truncated }
}

/** A directory whose modification time alone differs is not reported as changed. */
async function changedBetween(run: Run, { root }: EditedTree): Promise<Omit<Next, 'edited'> & { is_same: boolean }> {
  const { deps, base, workspace_id } = run
  const changed: Changed[] = []
  let is_same = base.root.mode === root.mode
  for await (const difference of differences({ blobs: deps.trees.blobs(workspace_id) }, base.root, root)) {
    const one = changedOf(difference)
    if (one === null) continue
    is_same = false
    if (changed.length === LIMITS.execution.changed_max) return { changed, changed_truncated: true, is_same }
    changed.push(one)
  }
  return { changed, changed_truncated: false, is_same }
}

async function commit(run: Run, edited: EditedTree | null, result: Result): Promise<void> {
  const { deps, workspace_id, execution_id, fence, base } = run
  const now = deps.clock.now()
  const end = async (db: Db) => {
    if (await endExecution(db, { workspace_id, execution_id, result, fence, now })) return
    throw new Unsuccessful('lost', 'lease_expired', 'Another process has taken over')
  }
  if (edited === null) return end(deps.db)
  await deps.db.transaction().execute(async (tx) => {
    await end(tx)
    const { entries = 0, bytes = 0 } = edited.root.page ?? {}
    const made_by = { execution_id }
    const move = {
      workspace_id,
      base_revision: base.revision,
      root: edited.digest,
      entries,
      bytes,
      changes: edited.counts,
      made_by,
      now,
      kept: null,
    }
    if (!(await moveTree(tx, move))) throw new TreeMoved(base.revision)
  })
  await deps.trees.note(workspace_id, { revision: base.revision + 1, root: edited.digest })
}

export function ofOutput({ ending, stdout, stderr, stdout_truncated, stderr_truncated }: Output) {
  const { exit_code, term_signal, timed_out } = ending
  return { exit_code, term_signal, timed_out, stdout, stderr, stdout_truncated, stderr_truncated }
}
