import type { workspacesSecrets, workspacesSetSecrets } from '../../../../contract/routes/app/secrets.ts'
import type { WorkspaceSecrets } from '../../../../contract/schemas/secrets.ts'
import { secretInputs, textInputs, type TemplateSettings } from '../../../../contract/schemas/template-settings.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { collision, mayBeBound } from '../../../core/secrets/rules.ts'
import { boundNames, lockNamedSecrets, secretsNamed } from '../../../core/secrets/store.ts'
import { readerOf, type Reader } from '../../../db/reader.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { fail } from '../../../lib/fail.ts'
import { changing } from '../../calls/idempotency/change.ts'
import { workspaceSubject } from '../answer-operation.ts'
import { findWorkspace, lockForChange } from '../find.ts'
import { deleted } from '../refusals.ts'
import { readTemplateVersion } from '../store.ts'
import { writeBinding } from './store.ts'
import type { ChangeDeps, ReadDeps } from '../../calls/deps.ts'

interface Bound {
  id: string
  organization_id: string
  project_id: string
}

export async function getSecretsOfWorkspace(call: Call<typeof workspacesSecrets>, deps: ReadDeps): Promise<Reply> {
  return { status: 200, body: await bindingOf(deps.reads, await findWorkspace(deps, call)) }
}

export async function setSecretsOfWorkspace(call: Call<typeof workspacesSetSecrets>, deps: ChangeDeps & ReadDeps): Promise<Reply> {
  const work = async (tx: ChangeTx) => {
    const row = await lockForChange(tx, call)
    if (row.deleted_at !== null) throw deleted()
    const { settings } = await readTemplateVersion(readerOf(tx), row.template_version_id)
    return (await replaceBinding(tx, row, settings, call.body.names)) ? row : null
  }
  await changing(deps, call, work, (row) => row && workspaceSubject(row, { names: [...call.body.names].sort() }))
  return { status: 200, body: await bindingOf(deps.reads, await findWorkspace(deps, call)) }
}

/** @returns whether the binding changed. */
export async function replaceBinding(
  tx: ChangeTx,
  workspace: Bound,
  settings: Pick<TemplateSettings, 'env' | 'inputs'>,
  names: readonly string[],
): Promise<boolean> {
  await checkBinding(tx, { ...workspace, workspace_id: workspace.id }, settings, names)
  const before = await boundNames(readerOf(tx), workspace.id)
  if (before.length === names.length && before.every((name) => names.includes(name))) return false
  await writeBinding(tx, workspace, names)
  return true
}

/** Locks the secrets' names until the transaction ends. */
export async function checkBinding(
  tx: ChangeTx,
  user: { organization_id: string; project_id: string; workspace_id: string | null },
  { env, inputs }: Pick<TemplateSettings, 'env' | 'inputs'>,
  names: readonly string[],
): Promise<void> {
  if (names.length === 0) return
  await lockNamedSecrets(tx, user, names)
  const usable = (await secretsNamed(readerOf(tx), user, names)).filter((secret) => mayBeBound(secret, user))
  const missing = names.filter((name) => !usable.some((secret) => secret.name === name))
  if (missing.length > 0) {
    const message = `These secrets are not available: ${missing.toSorted().join(', ')}`
    throw fail('validation_failed', 'secret_not_available', message, { details: { names: missing.toSorted() } })
  }
  const taken = collision(names, Object.keys(env), textInputs({ inputs }))
  if (taken === null) return
  throw fail('validation_failed', 'env_collision', `${taken} is a variable of the workspace already`, { details: { name: taken } })
}

/** App, "Open rules" 5. Throws if a required secret is not allowed. */
export async function withSecretInputs(
  tx: ChangeTx,
  user: { organization_id: string; project_id: string; workspace_id: string | null },
  settings: Pick<TemplateSettings, 'inputs'>,
  given: readonly string[],
): Promise<readonly string[]> {
  const declared = secretInputs(settings)
  if (declared.length === 0) return given
  const usable = (await secretsNamed(readerOf(tx), user, declared)).filter((secret) => mayBeBound(secret, user)).map(({ name }) => name)
  const missing = secretInputs(settings, 'required').filter((name) => !usable.includes(name))
  if (missing.length > 0) {
    const details = { names: missing, kind: 'secret' } as const
    throw fail('validation_failed', 'input_required', 'The template version needs secrets that the workspace may not use', { details })
  }
  return [...new Set([...given, ...usable])]
}

/** A deleted secret is listed while the template requires it: the next start fails without it. */
async function bindingOf(reads: Reader, workspace: Bound & { template_version_id: string }): Promise<WorkspaceSecrets> {
  const bound = await boundNames(reads, workspace.id)
  const { settings } = await readTemplateVersion(reads, workspace.template_version_id)
  const asked = [...new Set([...bound, ...secretInputs(settings, 'required')])].sort()
  const meant = asked.length === 0 ? [] : await secretsNamed(reads, workspace, asked)
  const names = asked.filter((name) => bound.includes(name) || !meant.some((each) => each.name === name))
  const user = { project_id: workspace.project_id, workspace_id: workspace.id }
  const statusOf = (name: string) => {
    const secret = meant.find((each) => each.name === name)
    if (secret === undefined) return 'deleted'
    return mayBeBound(secret, user) ? 'available' : 'not_allowed'
  }
  return { secrets: names.map((name) => ({ name, status: statusOf(name) })) }
}
