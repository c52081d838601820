import { normalPolicy } from '../../../../contract/egress/check.ts'
import { outside } from '../../../../contract/egress/intersect.ts'
import type { EgressPolicy } from '../../../../contract/egress/policy.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import type {
  workspaceEgressDelete,
  workspaceEgressDenials,
  workspaceEgressGet,
  workspaceEgressPut,
  workspaceEgressVersions,
} from '../../../../contract/routes/app/egress.ts'
import type { EgressDenial } from '../../../../contract/schemas/egress.ts'
import type { EgressFacts } from '../../../core/workspaces/egress/effective.ts'
import { readEgressFacts } from '../../../core/workspaces/egress/store.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { readerOf, type Reader } from '../../../db/reader.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { fail } from '../../../lib/fail.ts'
import { changing } from '../../calls/idempotency/change.ts'
import { pageAnswer, pageOf } from '../../calls/pages.ts'
import { workspaceSubject } from '../answer-operation.ts'
import { findWorkspace, lockForChange } from '../find.ts'
import { deleted } from '../refusals.ts'
import type { WorkspaceRow } from '../row.ts'
import { etagOf, refuseStaleVersion } from '../../calls/if-match.ts'
import { insertEgressVersion, listDenials, listEgressVersions, type DenialRow } from './store.ts'
import { egressVersionView, workspaceEgressView } from './view.ts'
import type { CallDeps, ChangeDeps, PageDeps, ReadDeps } from '../../calls/deps.ts'

export async function getWorkspaceEgress(call: Call<typeof workspaceEgressGet>, deps: ReadDeps): Promise<Reply> {
  const { id } = await findWorkspace(deps, call)
  return answerOf(await factsOf(deps.reads, id))
}

/** Replaces the project's policy for this workspace. The two are not intersected. */
export async function putWorkspaceEgress(
  call: Call<typeof workspaceEgressPut>,
  deps: ChangeDeps & ReadDeps & Pick<CallDeps, 'revocations'>,
): Promise<Reply> {
  const policy = normalPolicy(call.body)
  const work = async (tx: ChangeTx) => {
    const { row, facts } = await lockLive(tx, call)
    const current = facts.override?.version ?? 0
    refuseStaleVersion(call.named_headers, current)
    refuseWidening(policy, facts.ceiling)
    const version = await insertVersion(deps, tx, call, row, current + 1, policy)
    return { row, facts: { ...facts, override: { version, policy, created_at: call.now } }, version }
  }
  // Answers with the version that this call wrote, even if a later one exists.
  const { facts } = await changing(deps, call, work, ({ row, version }) => workspaceSubject(row, { mode: policy.mode, version }))
  await deps.revocations.awaitConfirmed(`workspace:${call.params.workspace_id}`, call.signal)
  const { override } = facts
  return answerOf({ ...(await factsOf(deps.reads, call.params.workspace_id)), override })
}

export async function clearWorkspaceEgress(call: Call<typeof workspaceEgressDelete>, deps: ChangeDeps): Promise<Reply> {
  const work = async (tx: ChangeTx) => {
    const { row, facts } = await lockLive(tx, call)
    const { version: current = 0, policy = null } = facts.override ?? {}
    refuseStaleVersion(call.named_headers, current)
    if (policy === null) return { row, version: current, cleared: false }
    return { row, version: await insertVersion(deps, tx, call, row, current + 1, null), cleared: true }
  }
  const done = await changing(deps, call, work, ({ row, version, cleared }) => (cleared ? workspaceSubject(row, { version }) : null))
  return { status: 204, headers: etagOf(done.version) }
}

export async function listWorkspaceEgress(call: Call<typeof workspaceEgressVersions>, deps: PageDeps): Promise<Reply> {
  const { id, organization_id, project_id } = await findWorkspace(deps, call)
  const scope = { organization_id, project_id, workspace_id: id }
  const rows = await listEgressVersions(deps.reads, scope, pageOf(deps.cursor_keys, call))
  return { status: 200, body: pageAnswer(deps.cursor_keys, call, rows, egressVersionView) }
}

const HOUR_MS = 3600_000

export async function listWorkspaceDenials(call: Call<typeof workspaceEgressDenials>, deps: ReadDeps): Promise<Reply> {
  const { id } = await findWorkspace(deps, call)
  const since = new Date(call.now.getTime() - LIMITS.egress.denial_hours * HOUR_MS)
  const rows = await listDenials(deps.reads, id, since)
  return { status: 200, body: { data: rows.map(denialView), next_cursor: null } }
}

function denialView({ port, first_at, last_at, ...row }: DenialRow): EgressDenial {
  return { ...row, port: port === 0 ? null : port, first_at: first_at.toISOString(), last_at: last_at.toISOString() }
}

function answerOf(facts: EgressFacts): Reply {
  const body = workspaceEgressView(facts)
  return { status: 200, body, headers: etagOf(body.version) }
}

async function lockLive(tx: ChangeTx, call: Parameters<typeof lockForChange>[1]): Promise<{ row: WorkspaceRow; facts: EgressFacts }> {
  const row = await lockForChange(tx, call)
  if (row.deleted_at !== null) throw deleted()
  return { row, facts: await factsOf(readerOf(tx), row.id) }
}

async function factsOf(reads: Reader, workspace_id: string): Promise<EgressFacts> {
  const [facts] = await readEgressFacts(reads, [workspace_id])
  if (facts === undefined) throw new Error('a workspace is gone that was just there')
  return facts
}

function refuseWidening(policy: EgressPolicy, ceiling: EgressPolicy | null): void {
  const wider = outside(policy, ceiling)
  if (ceiling === null || wider.length === 0) return
  throw fail('validation_failed', 'egress_widening', "The policy lets out more than the workspace's template allows", {
    details: { template_egress: ceiling, outside: wider },
  })
}

type Changing = Call<typeof workspaceEgressPut> | Call<typeof workspaceEgressDelete>

async function insertVersion(
  { ids }: Pick<CallDeps, 'ids'>,
  tx: ChangeTx,
  { who, now }: Changing,
  { id, organization_id, project_id }: WorkspaceRow,
  version: number,
  policy: EgressPolicy | null,
): Promise<number> {
  const by = { type: who.type, id: who.id }
  await insertEgressVersion(tx, { id: ids.next(), organization_id, project_id, workspace_id: id, version, policy, by, now })
  return version
}
