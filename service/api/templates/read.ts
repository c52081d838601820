import type {
  templatesGet,
  templatesGetOfOrganization,
  templatesList,
  templatesListOfOrganization,
  templateVersionsGet,
  templateVersionsGetOfOrganization,
  templateVersionsList,
  templateVersionsListOfOrganization,
} from '../../../contract/routes/app/templates.ts'
import type { Call, Reply } from '../../http/call.ts'
import { maySeeOrganization, notFound } from '../calls/scope.ts'
import { organizationIds } from '../../core/people/organizations/store.ts'
import { pageAnswer, pageOf } from '../calls/pages.ts'
import { findTemplate, findVersion } from './find.ts'
import { listTemplates, listVersions } from './store.ts'
import { templateView, versionView } from './view.ts'
import type { PageDeps, ReadDeps } from '../calls/deps.ts'

export async function listAllTemplates(call: Call<typeof templatesList>, deps: PageDeps): Promise<Reply> {
  const rows = await listTemplates(deps.reads, organizationIds(call.who), true, pageOf(deps.cursor_keys, call))
  return { status: 200, body: pageAnswer(deps.cursor_keys, call, rows, templateView) }
}

export async function listTemplatesOfOrganization(call: Call<typeof templatesListOfOrganization>, deps: PageDeps): Promise<Reply> {
  const { organization_id } = call.params
  if (!maySeeOrganization(call.who, organization_id)) throw notFound('organization')
  const rows = await listTemplates(deps.reads, [organization_id], false, pageOf(deps.cursor_keys, call))
  return { status: 200, body: pageAnswer(deps.cursor_keys, call, rows, templateView) }
}

export async function getTemplate(
  call: Call<typeof templatesGet> | Call<typeof templatesGetOfOrganization>,
  deps: ReadDeps,
): Promise<Reply> {
  return { status: 200, body: templateView(await findTemplate(deps.reads, call.who, call.params)) }
}

export async function listVersionsOfTemplate(
  call: Call<typeof templateVersionsList> | Call<typeof templateVersionsListOfOrganization>,
  deps: PageDeps,
): Promise<Reply> {
  const { id } = await findTemplate(deps.reads, call.who, call.params)
  const rows = await listVersions(deps.reads, id, pageOf(deps.cursor_keys, call))
  return { status: 200, body: pageAnswer(deps.cursor_keys, call, rows, versionView) }
}

export async function getVersion(
  call: Call<typeof templateVersionsGet> | Call<typeof templateVersionsGetOfOrganization>,
  deps: ReadDeps,
): Promise<Reply> {
  const template = await findTemplate(deps.reads, call.who, call.params)
  return { status: 200, body: versionView(await findVersion(deps.reads, template, call.params.version)) }
}
