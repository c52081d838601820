import type { secretsList, secretsListOfOrganization, secretVersionsList } from '../../../../contract/routes/app/secrets.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { maySeeOrganization, notFound } from '../../calls/scope.ts'
import { pageAnswer, pageOf } from '../../calls/pages.ts'
import { projectOf } from '../../access/projects/project-of.ts'
import { findSecret } from './find.ts'
import { listSecrets, listVersions, type SecretScope } from './store.ts'
import { secretView, versionView } from './view.ts'
import type { PageDeps } from '../../calls/deps.ts'

export async function listSecretsOfProject(call: Call<typeof secretsList>, deps: PageDeps): Promise<Reply> {
  const { project_id } = await projectOf(deps.reads, call.who, call.params.project_id)
  return answer(deps, call, { project_id })
}

export async function listSecretsOfOrganization(call: Call<typeof secretsListOfOrganization>, deps: PageDeps): Promise<Reply> {
  const { organization_id } = call.params
  if (!maySeeOrganization(call.who, organization_id)) throw notFound('organization')
  return answer(deps, call, { organization_id })
}

async function answer(
  deps: PageDeps,
  call: Call<typeof secretsList> | Call<typeof secretsListOfOrganization>,
  scope: SecretScope,
): Promise<Reply> {
  const rows = await listSecrets(deps.reads, scope, call.query.include_deleted ?? false, pageOf(deps.cursor_keys, call))
  return { status: 200, body: pageAnswer(deps.cursor_keys, call, rows, secretView) }
}

export async function listVersionsOfSecret(call: Call<typeof secretVersionsList>, deps: PageDeps): Promise<Reply> {
  const secret = await findSecret(deps, call)
  const rows = await listVersions(deps.reads, secret.id, pageOf(deps.cursor_keys, call))
  return { status: 200, body: pageAnswer(deps.cursor_keys, call, rows, versionView) }
}
