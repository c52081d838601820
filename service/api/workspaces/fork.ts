import type { workspacesFork } from '../../../contract/routes/app/lifecycle.ts'
import { admitStart } from '../../core/money/admission/store.ts'
import type { ChangeTx } from '../../core/changes/mutate.ts'
import { StaleReadError } from '../../core/changes/stale-read-error.ts'
import { aboutWorkspace } from '../../core/workspaces/operations/store.ts'
import { readerOf, type Tx } from '../../db/reader.ts'
import { forkCeilings } from '../../core/workspaces/ceilings.ts'
import { boundNames, lockNamedSecrets } from '../../core/secrets/store.ts'
import { insertFirstOperation, assignWorkspaceKey, type NewWorkspace } from '../../core/workspaces/create-store.ts'
import type { Call, Reply } from '../../http/call.ts'
import { fail } from '../../lib/fail.ts'
import { failpoint } from '../../lib/failpoints.ts'
import { copyAttachments, readAttachments } from './attachments/store.ts'
import { readEgressFacts } from '../../core/workspaces/egress/store.ts'
import { takeOfDay } from '../calls/daily/take.ts'
import { insertEgressVersion } from './egress/store.ts'
import { changeAndAnswer } from '../calls/idempotency/change.ts'
import { copyAuthority, copyBinding } from './secrets/store.ts'
import { operationAndWorkspaceBody, workspaceCommandResult, type WorkspaceCommandResult } from './answer-operation.ts'
import { lockWithOperation } from './find.ts'
import { checkKey } from './open-rules.ts'
import { givesKeyBack } from '../../core/workspaces/keys.ts'
import { allowed, inProgress } from './refusals.ts'
import { activeOperation, ceilings, familyOf, type WorkspaceRow } from './row.ts'
import { readKey, readTemplateVersion, readWorkspace } from './store.ts'
import type { CallDeps, ChangeDeps } from '../calls/deps.ts'

type ForkCall = Call<typeof workspacesFork>

export async function forkWorkspace(call: ForkCall, deps: ChangeDeps): Promise<Reply> {
  checkKey(call.body.key)
  await failpoint('fork.F1')
  const work = async (tx: ChangeTx) => {
    const source = await lockWithOperation(tx, call)
    allowed(source, 'fork')
    refuseStale(source)
    return forkFrom(deps, tx, call, source)
  }
  return changeAndAnswer(deps, call, work, operationAndWorkspaceBody)
}

/** Once the source's operation has completed, a fork can no longer join its capture. The caller retries after the lock is released. */
function refuseStale(source: WorkspaceRow): void {
  const active = activeOperation(source)
  if (active !== null && active.completed_at !== null) throw inProgress(source)
}

async function forkFrom(deps: Pick<CallDeps, 'ids'>, tx: ChangeTx, call: ForkCall, source: WorkspaceRow): Promise<WorkspaceCommandResult> {
  const { body, now } = call
  const id = deps.ids.next()
  const freed = await freedKey(tx, source.organization_id, body.key)
  if (!(await assignWorkspaceKey(tx, source, body.key, id, freed))) throw new StaleReadError('the key is taken meanwhile')
  const plan = await admitStart(tx, source.organization_id, id)
  const version = await readTemplateVersion(readerOf(tx), source.template_version_id)
  const operation_id = deps.ids.next()
  const workspace = { id, organization_id: source.organization_id, project_id: source.project_id }
  const created: NewWorkspace = {
    ...workspace,
    key: body.key,
    template_version_id: source.template_version_id,
    observed_state: 'forking',
    lifetime: body.lifetime ?? 'persistent',
    mode: 'processful',
    purpose: 'standard',
    origin: null,
    disk_layout: source.disk_layout,
    caps: { ...source.caps, ...body.caps },
    ceilings: forkCeilings(ceilings(source), body.caps ?? {}, version.settings.ceiling, plan),
    inputs: source.inputs,
    startup: source.startup, // the fork's memory continues in this start-up state
    cell_id: source.cell_id, // the cell that has the source's memory and disk
    idle_policy: null,
    state_layers: source.state_layers,
    family_id: familyOf(source),
    background_seconds: source.background_seconds, // background work continues in the fork's memory
    now,
  }
  const names = await boundNames(readerOf(tx), source.id)
  if (names.length > 0) await lockNamedSecrets(tx, source, names)
  const input = { source_workspace_id: source.id }
  await insertFirstOperation(tx, created, {
    ...aboutWorkspace(workspace),
    id: operation_id,
    kind: 'fork',
    source_workspace_id: source.id,
    joins: activeOperation(source) !== null, // joins another fork, whose locked operation captures for both
    cell_id: source.cell_id,
    input,
    now,
  })
  const attached = await readAttachments(readerOf(tx), source.id)
  await copyAttachments(tx, attached, { workspace_id: id, nextId: () => deps.ids.next(), now })
  if (names.length > 0) await copyBinding(tx, source.id, workspace)
  await copyAuthority(tx, source.id, id)
  await copyOverride(deps, tx, call, source.id, workspace)
  await takeOfDay(tx, 'workspaces', source.organization_id, now)
  return workspaceCommandResult(workspace, { status: 202, operation_id, changed: true })
}

/** The fork contains the source's memory and files, so it must not reach more hosts (decision 136). */
export async function copyOverride(
  deps: Pick<CallDeps, 'ids'>,
  tx: ChangeTx,
  { who, now }: Pick<ForkCall, 'who' | 'now'>,
  source_id: string,
  target: Owner,
): Promise<void> {
  const [facts] = await readEgressFacts(readerOf(tx), [source_id])
  const policy = facts?.override?.policy ?? null
  if (policy === null) return
  const { id: workspace_id, ...owner } = target
  const by = { type: who.type, id: who.id }
  await insertEgressVersion(tx, { ...owner, workspace_id, id: deps.ids.next(), version: 1, policy, by, now })
}

type Owner = Pick<NewWorkspace, 'id' | 'organization_id' | 'project_id'>

/** Throws if the key is in use. @returns the ended workspace that has freed the key. */
export async function freedKey(tx: Tx, organization_id: string, key: string): Promise<string | null> {
  const used = await readKey(readerOf(tx), organization_id, key)
  if (used === null) return null
  const holder = await readWorkspace(readerOf(tx), used.workspace_id)
  if (used.reusable && givesKeyBack(holder?.ended_reason)) return used.workspace_id
  throw fail('conflict', 'key_in_use', 'The key is in use, or was', { details: { key } })
}
