import type { workspacesSaveAsTemplate } from '../../../../contract/routes/app/template-builds.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { beginOperation } from '../../../core/workspaces/operations/begin.ts'
import { checkAcknowledged } from '../../../core/templates/acknowledged.ts'
import { refuseUpdatePolicy, savedSettings } from '../../../core/templates/version-settings.ts'
import { readerOf, type Reader } from '../../../db/reader.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { fail } from '../../../lib/fail.ts'
import { failpoint } from '../../../lib/failpoints.ts'
import { changeAndAnswer } from '../../calls/idempotency/change.ts'
import { readOperation } from '../../workspaces/operations/store.ts'
import { operationView } from '../../workspaces/operations/view.ts'
import { lockForChange } from '../../workspaces/find.ts'
import { operateOn, refuseAlways, refuseDeleted } from '../../workspaces/refusals.ts'
import type { WorkspaceRow } from '../../workspaces/row.ts'
import { beginBuild, refusePlatformSlug, templateToBuild } from './begin.ts'
import { buildBody, type BuildCommandResult } from './cancel.ts'
import { refuseCommands } from './permissions.ts'
import { hasCapture, readSource } from './source-store.ts'
import type { CallDeps, ChangeDeps } from '../../calls/deps.ts'

type SaveCall = Call<typeof workspacesSaveAsTemplate>

export interface Begun extends BuildCommandResult {
  capture_id: string | null
}

export async function saveAsTemplate(call: SaveCall, deps: ChangeDeps): Promise<Reply> {
  await failpoint('template_build.B1')
  const work = async (tx: ChangeTx) => {
    const row = await lockForChange(tx, call)
    return begin(deps, tx, call, row)
  }
  return changeAndAnswer(deps, call, work, startedBody)
}

/** The first failing check decides the refusal: keep this order. */
async function begin(deps: Pick<CallDeps, 'ids'>, tx: ChangeTx, call: SaveCall, row: WorkspaceRow): Promise<Begun> {
  const { who, body, now } = call
  refuseDeleted(row, 'save_as_template')
  refuseAlways(row, 'save_as_template')
  if (row.disk_layout !== 'layered')
    throw fail('conflict', 'legacy_disk_layout', 'The workspace keeps its files together with its template: it has no layer')
  const source = await readSource(readerOf(tx), row.id)
  const acknowledged = checkAcknowledged(body.acknowledged_scan_findings)
  refuseUpdatePolicy(body)
  const settings = savedSettings(source.settings, body)
  refuseCommands(who, row.organization_id, settings)
  await refusePlatformSlug(tx, body.template_slug, 'template_slug')
  const { checkpoint_id = null } = body
  if (checkpoint_id !== null && !(await hasCapture(readerOf(tx), row.id, checkpoint_id, now))) {
    throw fail('not_found', 'checkpoint_not_found', 'The workspace has no such checkpoint')
  }
  const operate = checkpoint_id === null ? operateOn(row, 'save_as_template') : null
  const template_id = await templateToBuild(deps, tx, call, {
    organization_id: row.organization_id,
    slug: body.template_slug,
    display_name: body.display_name ?? null,
    description: body.description ?? null,
    created_at: now,
  })
  const { organization_id, project_id, cell_id } = row
  const capture_id =
    operate === null ? null : await beginOperation(deps, tx, row, operate, { cell_id, input: { reason: 'save_as_template' }, now })
  const spec = {
    ...source,
    settings,
    workspace_id: row.id,
    checkpoint_id,
    description: body.description ?? null,
    auto_publish: body.auto_publish ?? false,
    acknowledged,
  }
  const about = { organization_id, project_id, template_id, template_slug: body.template_slug, cell_id, now }
  const begun = await beginBuild(deps, tx, { ...about, kind: 'save_as_template', spec, capture_operation_id: capture_id })
  return { ...begun, capture_id }
}

export async function startedBody(reads: Reader, begun: Begun) {
  const capture = begun.capture_id === null ? null : await readOperation(reads, begun.capture_id)
  return { operation: capture === null ? null : operationView(capture), build: await buildBody(reads, begun) }
}
