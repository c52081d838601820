import type { secretsCreate, secretsCreateOfOrganization } from '../../../../contract/routes/app/secrets.ts'
import type { OrganizationSecretCreate } from '../../../../contract/schemas/secrets.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { readerOf } from '../../../db/reader.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { fail } from '../../../lib/fail.ts'
import { maySeeOrganization, notFound } from '../../calls/scope.ts'
import { takeOfDay } from '../../calls/daily/take.ts'
import { changing } from '../../calls/idempotency/change.ts'
import { projectOf } from '../../access/projects/project-of.ts'
import { checkAllowed } from './allowed.ts'
import { checkSecretLimits } from './bounds.ts'
import { secretSubject } from './find.ts'
import { checkedHosts, checkName, checkValue, checkValueForHosts } from './rules.ts'
import { sealForCells } from './seal.ts'
import { insertSecret, insertVersion } from './store.ts'
import { secretView } from './view.ts'
import type { ChangeDeps, ReadDeps } from '../../calls/deps.ts'

export async function createSecret(call: Call<typeof secretsCreate>, deps: ChangeDeps & ReadDeps): Promise<Reply> {
  const project = await projectOf(deps.reads, call.who, call.params.project_id)
  return create(deps, call, project, call.body)
}

export async function createSecretOfOrganization(call: Call<typeof secretsCreateOfOrganization>, deps: ChangeDeps): Promise<Reply> {
  const { organization_id } = call.params
  if (!maySeeOrganization(call.who, organization_id)) throw notFound('organization')
  return create(deps, call, { organization_id, project_id: null }, call.body)
}

type CreateCall = Call<typeof secretsCreate> | Call<typeof secretsCreateOfOrganization>

async function create(
  deps: ChangeDeps,
  call: CreateCall,
  owner: { organization_id: string; project_id: string | null },
  body: OrganizationSecretCreate,
): Promise<Reply> {
  checkName(body.name)
  checkValue(body.value)
  const hosts = checkedHosts(body.hosts ?? null)
  checkValueForHosts(body.value, hosts)
  const id = deps.ids.next()
  const secret = {
    id,
    ...owner,
    name: body.name,
    description: body.description ?? null,
    allowed_project_ids: body.allowed_project_ids ?? null,
    allowed_workspace_ids: body.allowed_workspace_ids ?? null,
    allowed_tools: body.allowed_tools ?? ['exec' as const, 'pty' as const],
    hosts,
    version: 1,
    created_at: call.now,
  }
  const work = async (tx: ChangeTx) => {
    await checkAllowed(readerOf(tx), owner, secret)
    await checkSecretLimits(tx, owner)
    if (!(await insertSecret(tx, secret))) throw fail('conflict', 'name_taken', 'There is a secret of this name already')
    const version = { id: deps.ids.next(), secret_id: id, version: 1, created_at: call.now }
    await insertVersion(tx, version, await sealForCells(tx, { ...owner, secret_id: id, version: 1 }, body.value))
    await takeOfDay(tx, 'secret_values', owner.organization_id, call.now)
  }
  await changing(deps, call, work, () => secretSubject(secret))
  return { status: 201, body: secretView({ ...secret, updated_at: call.now, deleted_at: null }) }
}
