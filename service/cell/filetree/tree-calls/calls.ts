import { RevisionGone, TreeBusy, TreeMoved } from '../trees/publish.ts'
import type { Revision } from '../trees/revisions.ts'
import type { Trees } from '../trees/trees.ts'
import type { Executions } from '../executions/executions.ts'
import type { TicketOf, CallLease } from '../../admission/call-lease.ts'
import type { treeRestore } from '../../../../contract/routes/cell/tree.ts'
import type { CellRoute, Route } from '../../../../contract/route.ts'
import type { Call, Handler, Reply, Who } from '../../../http/call.ts'
import { fail, Failure } from '../../../lib/fail.ts'
import { AgentFailure } from '../../host/agent-failure.ts'
import { type Blobs, BlobError } from '../trees/blobs.ts'
import { readKept } from '../trees/store.ts'
import type { TreeChange } from '../trees/tree.ts'
import { fullMessage, TreeFull } from '../trees/full.ts'
import { crowded } from '../../admission/crowded.ts'
import type { GatewayDeps, GatewayHandler } from '../../gateway/handler.ts'

export interface Seen extends Revision {
  blobs: Pick<Blobs, 'get'>
}

const HEADER = 'x-tree-revision'

export interface TreeDeps extends GatewayDeps {
  trees: Trees
  executions: Executions
}

export type TreeHandler<R extends CellRoute> = Handler<R, TreeDeps, CallLease>

export function byMode<R extends CellRoute>(of_machine: GatewayHandler<R>, of_tree: TreeHandler<R>): Handler<R, TreeDeps, TicketOf<R>> {
  return (call, deps, ticket) => {
    if (ticket.entry.mode === 'file_first') return of_tree(call, deps, ticket).catch(explained)
    const { tree_revision } = call.query as { tree_revision?: number }
    if (tree_revision === undefined) return of_machine(call, deps, ticket)
    throw fail('validation_failed', 'not_supported_for_mode', 'A workspace with a machine has no revisions of its files', {
      details: { field: 'tree_revision', mode: ticket.entry.mode, operation: 'tree_revision' },
    })
  }
}

/**
 * The header with the tree's revision, also for calls that are refused before their tree is read. Only a token for the workspace receives
 * the header (Cell, "File-first rules" 4).
 */
export function revisionHeaders({ trees, table }: Pick<TreeDeps, 'table' | 'trees'>) {
  return async (route: Route, who: Who): Promise<Record<string, string>> => {
    if (route.surface !== 'cell' || route.tree !== true || who.type !== 'tool_token') return {}
    if (table.get(who.workspace_id)?.mode !== 'file_first') return {}
    const revision = await trees.revision(who.workspace_id).catch(() => null) // if this read fails, the refusal is still sent, without the header
    return revision === null ? {} : { [HEADER]: String(revision) }
  }
}

export async function reading(
  { trees }: TreeDeps,
  { entry }: CallLease,
  tree_revision: number | undefined,
  read: (seen: Seen) => Promise<Reply>,
): Promise<Reply> {
  const at =
    tree_revision === undefined ? await trees.current(entry.id).catch(explained) : await trees.at(entry.id, tree_revision).catch(explained)
  if (at === null && tree_revision !== undefined) throw notKept(tree_revision)
  if (at === null) throw gone()
  const seen = { ...at, blobs: trees.blobs(entry.id) }
  return ofRevision(at.revision, async () => {
    try {
      return await read(seen)
    } catch (error) {
      // An earlier revision may expire while it is read: its missing blobs are then reported as such.
      if (error instanceof BlobError && tree_revision !== undefined && (await trees.at(entry.id, tree_revision)) === null) {
        throw notKept(tree_revision)
      }
      throw error
    }
  })
}

export function notKept(tree_revision: number): Failure {
  return fail('not_found', null, 'The revision is not kept, or was never there', { details: { tree_revision } })
}

export interface Planned {
  changes: TreeChange[]
  /** Blobs that the tree does not contain yet. */
  contents?: Buffer[]
  /** The revision to restore. `changes` is empty if this is set. */
  restores?: number
  status: number
  body?: object
}

export interface Keyed {
  key: string | null
  fingerprint: Buffer
}

const TRIES_MAX = 5
const WRITTEN_RETRY_SECONDS = 60

/** Calls `plan` again if another process published a revision first. */
export async function changing(
  { trees, db }: TreeDeps,
  { entry: { id } }: CallLease,
  { named_headers, signal, route }: Pick<Call<typeof treeRestore>, 'named_headers' | 'signal'> & Pick<Call, 'route'>,
  plan: (seen: Seen) => Promise<Planned>,
  { key, fingerprint }: Keyed = { key: null, fingerprint: Buffer.alloc(0) },
): Promise<Reply> {
  const if_match = ifMatch(named_headers['If-Match'])
  const attempt = async (): Promise<Reply> => {
    const at = await trees.current(id).catch(explained)
    if (at === null) throw gone()
    return ofRevision(at.revision, async () => {
      const kept = key === null ? null : await readKept(db, id, key)
      if (kept !== null) return repeated(kept, fingerprint)
      if (at.execution_id !== null) throw executionInProgress(at.execution_id)
      if (if_match !== null && if_match !== at.revision) throw mismatch(at.revision)
      using publication = trees.begin(id)
      const { changes, contents, restores, status, body } = await plan({ ...at, blobs: trees.blobs(id) })
      const answer = { status, ...(body === undefined ? {} : { body }) }
      const made_by = { call: route.id }
      const published =
        restores === undefined
          ? await publication.publish(at.revision, changes, {
              ...(contents === undefined ? {} : { contents }),
              kept: key === null ? undefined : { key, fingerprint, answer },
              made_by,
            })
          : await publication.restore(at.revision, restores, made_by)
      return { ...answer, headers: { [HEADER]: String(published.revision) } }
    })
  }
  return trees.inWorkspaceQueue(id, async () => {
    for (let tries = 1; ; tries++) {
      signal.throwIfAborted() // the caller has left, and nothing has changed
      try {
        return await attempt()
      } catch (error) {
        if (!(error instanceof TreeMoved)) throw error
        if (if_match !== null) throw ofRevisionHeader(mismatch(error.current_revision), error.current_revision)
        if (tries === TRIES_MAX)
          throw fail('dependency_unavailable', null, 'Other calls are changing the tree at this moment', { retry_after_seconds: 1 })
      }
    }
  })
}

function repeated(kept: { fingerprint: Buffer; revision: number; answer: object }, fingerprint: Buffer): Reply {
  if (!kept.fingerprint.equals(fingerprint)) {
    throw fail('conflict', 'operation_id_reused', 'The Idempotency-Key was used for another request')
  }
  const { status, body } = kept.answer as { status: number; body?: object } // written by changing()
  const headers = { [HEADER]: String(kept.revision), 'idempotent-replayed': 'true' }
  return { status, ...(body === undefined ? {} : { body }), headers }
}

/** Accepts a revision with or without quotes (Cell, "File-first rules" 4). */
function ifMatch(text: string | undefined): number | null {
  if (text === undefined) return null
  const [, bare, quoted] = /^(?:(\d{1,15})|"(\d{1,15})")$/.exec(text.trim()) ?? []
  const revision = bare ?? quoted
  if (revision !== undefined) return Number(revision)
  throw fail('bad_request', null, 'The If-Match header is not the revision of a tree', {
    details: { field: 'If-Match', issues: [{ path: 'If-Match', message: 'must be a revision' }] },
  })
}

function mismatch(current_tree_revision: number): Failure {
  return fail('conflict', 'tree_revision_mismatch', 'The tree is at another revision', { details: { current_tree_revision } })
}

export function executionInProgress(execution_id: string): Failure {
  return fail('workspace_busy', 'execution_in_progress', 'A command runs on the files', {
    details: { execution_id },
    retry_after_seconds: 1,
  })
}

function gone(): Failure {
  return fail('unauthenticated', 'revoked_workspace', 'The workspace was deleted')
}

/** Cell, "File-first rules" 4: every answer and refusal names its revision. */
async function ofRevision(revision: number, work: () => Promise<Reply>): Promise<Reply> {
  try {
    const reply = await work()
    if (!('status' in reply)) return reply
    return { ...reply, headers: { [HEADER]: String(revision), ...reply.headers } }
  } catch (error) {
    if (error instanceof TreeMoved) throw error
    throw ofRevisionHeader(asFailure(error), revision)
  }
}

function ofRevisionHeader(error: unknown, revision: number): unknown {
  if (!(error instanceof Failure)) return error
  const { code, reason, message, options } = error
  return fail(code, reason ?? null, message, { ...options, headers: { ...options.headers, [HEADER]: String(revision) } })
}

function explained(error: unknown): never {
  throw asFailure(error)
}

export function asFailure(error: unknown): unknown {
  if (error instanceof BlobError) {
    return fail('internal_error', null, `A part of the tree is ${error.kind === 'missing' ? 'missing' : 'damaged'}`, { cause: error })
  }
  if (error instanceof RevisionGone) return notKept(error.revision)
  if (error instanceof TreeBusy) return executionInProgress(error.execution_id)
  if (error instanceof TreeFull) {
    return fail('rate_limited', 'disk_full', fullMessage(error), {
      retry_after_seconds: error.what === 'written' ? WRITTEN_RETRY_SECONDS : 1,
    })
  }
  if (error instanceof AgentFailure && error.kind === 'crowded') return crowded()
  const { code } = error as { code?: unknown }
  if (code === 'ENOSPC' || code === 'EDQUOT' || code === 'EIO' || code === 'EMFILE') {
    return fail('dependency_unavailable', null, 'The files of the workspace cannot be stored at the moment', {
      retry_after_seconds: 5,
      cause: error,
    })
  }
  return error
}
