import { isTerminal } from '../../../../contract/states/operation.ts'
import { serviceOrigin, type ChangeOrigin } from '../../../core/changes/audit.ts'
import { mutate, type ChangeTx } from '../../../core/changes/mutate.ts'
import { lockOrganization } from '../../../core/people/members/store.ts'
import { aboutVolume, cancelOperation, insertOperation, lockOperation } from '../../../core/workspaces/operations/store.ts'
import { archiveTemplates, markEnded } from '../../../core/people/organizations/deletion-store.ts'
import { readerOf } from '../../../db/reader.ts'
import type { PersonPrincipal } from '../../../http/call.ts'
import { startPoller, type Poller } from '../../../lib/poll.ts'
import { secretSubject } from '../../workspaces/secrets/find.ts'
import { eraseVersions, lockSecret, markDeleted as markSecretDeleted, unbind } from '../../workspaces/secrets/store.ts'
import { readBuild } from '../../templates/builds/store.ts'
import { cancelCreation, lockVolume, markDeleting } from '../../workspaces/volumes/store.ts'
import { endForGood } from '../../workspaces/delete.ts'
import {
  countEnded,
  listEndings,
  noteProgress,
  readRemainingObjects,
  succeed,
  type OrganizationDeletion,
  type RemainingObjects,
} from './ending-store.ts'
import type { CallDeps, ReadDeps } from '../../calls/deps.ts'

const LOOK_MS = 2000

type DeletionWorkerDeps = ReadDeps & Pick<CallDeps, 'db' | 'clock' | 'ids' | 'logger'>

/** Several processes may run this worker, because each step checks the current state. */
export function startDeletionWorker(deps: DeletionWorkerDeps): Poller {
  return startPoller({
    every_ms: LOOK_MS,
    look: (stopped) => endAll(deps, stopped),
    failed: (error) => deps.logger.warn({ err: error }, 'deleted organizations could not be read'),
  })
}

export async function endAll(deps: DeletionWorkerDeps, stopped: () => boolean = () => false): Promise<void> {
  for (const ending of await listEndings(deps.reads)) {
    if (stopped()) return
    await step(deps, ending).catch((error: unknown) =>
      deps.logger.warn({ err: error, organization_id: ending.organization_id }, 'the deletion of an organization waits for its next step'),
    )
  }
}

/** Deletes workspaces before volumes, which are unused then. */
async function step(deps: DeletionWorkerDeps, ending: OrganizationDeletion): Promise<void> {
  const { organization_id, operation_id } = ending
  const now = deps.clock.now()
  const left = await readRemainingObjects(deps.reads, organization_id)
  await noteProgress(deps.db, operation_id, reasonOf(left), now)
  for (const id of left.builds) await endBuild(deps, ending, id)
  for (const id of left.workspaces) await endWorkspace(deps, ending, id)
  if (left.workspaces_left === 0) for (const id of left.volumes) await endVolume(deps, ending, id)
  for (const id of left.secrets) await endSecret(deps, ending, id)
  if (isNothingLeft(left)) await finish(deps, ending)
}

/** Values of state_reason (App, "Operation"). */
function reasonOf({ workspaces_left, volumes_left }: RemainingObjects): string {
  if (workspaces_left > 0) return 'deleting_workspaces'
  return volumes_left > 0 ? 'deleting_volumes' : 'deleting_records'
}

function isNothingLeft({ builds, workspaces_left, volumes_left, secrets }: RemainingObjects): boolean {
  return builds.length === 0 && workspaces_left === 0 && volumes_left === 0 && secrets.length === 0
}

function byRequester({ ids, clock }: DeletionWorkerDeps, { requested_by, request_id }: OrganizationDeletion): ChangeOrigin {
  return { actor: { kind: 'user', id: requested_by }, ids, now: clock.now(), request_id, source_address: null }
}

async function endWorkspace(deps: DeletionWorkerDeps, ending: OrganizationDeletion, workspace_id: string): Promise<void> {
  const by = byRequester(deps, ending)
  const call = { who: ownerOf(ending), params: { workspace_id }, now: by.now }
  const work = (tx: ChangeTx) => endForGood(deps, tx, call, 'delete', { ended_reason: null, input: { reason: 'organization_deleted' } })
  await mutate(deps.db, by, 'workspaces.delete', work, ({ changed, scope }) => changed && { ...scope, ...changed })
}

/** The requester with the role of that time: the membership no longer exists. */
function ownerOf({ organization_id, requested_by }: OrganizationDeletion): PersonPrincipal {
  const session = { id: '', stepped_up_at: null }
  return { type: 'user', id: requested_by, email: '', memberships: [{ organization_id, role: 'owner' }], session }
}

/** Cancels the build's operation. The build's worker can then not commit. */
async function endBuild(deps: DeletionWorkerDeps, ending: OrganizationDeletion, build_id: string): Promise<void> {
  const by = byRequester(deps, ending)
  const work = async (tx: ChangeTx) => {
    const found = await readBuild(readerOf(tx), build_id)
    if (found === null) return null
    await lockOperation(tx, found.operation_id)
    const row = await readBuild(readerOf(tx), build_id)
    if (row === null || isTerminal(row.state)) return null
    await cancelOperation(tx, row.operation_id, by.now, 'The organization was deleted')
    return row
  }
  await mutate(deps.db, by, 'template-builds.cancel', work, (row) => row && { kind: 'template_build', ...ownerOfRow(row) })
}

async function endVolume(deps: DeletionWorkerDeps, ending: OrganizationDeletion, volume_id: string): Promise<void> {
  const by = byRequester(deps, ending)
  const work = async (tx: ChangeTx) => {
    await cancelCreation(tx, volume_id, by.now)
    const row = await lockVolume(tx, volume_id)
    if (row === null || row.deleted_at !== null) return null
    const operation = { id: deps.ids.next(), kind: 'volume_delete', cell_id: row.cell_id, input: { force: true }, now: by.now } as const
    await insertOperation(tx, { ...aboutVolume(row), ...operation }, null)
    await markDeleting(tx, row.id, by.now)
    return row
  }
  await mutate(deps.db, by, 'volumes.delete', work, (row) => row && { kind: 'volume', ...ownerOfRow(row) })
}

function ownerOfRow({ id, organization_id, project_id }: { id: string; organization_id: string; project_id: string }) {
  return { id, organization_id, project_id }
}

async function endSecret(deps: DeletionWorkerDeps, ending: OrganizationDeletion, secret_id: string): Promise<void> {
  const by = byRequester(deps, ending)
  const work = async (tx: ChangeTx) => {
    const secret = await lockSecret(tx, secret_id)
    if (secret === null || secret.deleted_at !== null) return null
    await markSecretDeleted(tx, secret.id, by.now)
    await eraseVersions(tx, secret.id, null, by.now)
    await unbind(tx, secret)
    return secret
  }
  await mutate(deps.db, by, 'secrets.delete', work, (secret) => secret && secretSubject(secret))
}

/** Creations lock the organization's row. Under the same lock this count includes every one. */
async function finish(deps: DeletionWorkerDeps, { organization_id, operation_id }: OrganizationDeletion): Promise<void> {
  const by = serviceOrigin('api', { ids: deps.ids, now: deps.clock.now() })
  const work = async (tx: ChangeTx) => {
    await lockOrganization(tx, organization_id)
    if (!isNothingLeft(await readRemainingObjects(readerOf(tx), organization_id))) return false
    const templates = await archiveTemplates(tx, organization_id, by.now)
    const result = { ...(await countEnded(tx, organization_id)), templates }
    if (!(await succeed(tx, operation_id, result, by.now))) return false
    await markEnded(tx, organization_id, by.now)
    return true
  }
  const subject = { kind: 'organization', id: organization_id, organization_id, project_id: null } as const
  await mutate(deps.db, by, 'organizations.end', work, (done) => (done ? subject : null))
}
