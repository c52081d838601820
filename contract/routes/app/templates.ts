import Type from 'typebox'
import { administrators, readers, type PrincipalAccess } from '../../access.ts'
import { NO_REASON } from '../../errors.ts'
import { appRoute } from '../../route.ts'
import { PageQuery, Uuid } from '../../schemas/common.ts'
import { Template, TemplateList, TemplateSlug, TemplateVersion, TemplateVersionList, VersionNumber } from '../../schemas/templates.ts'

/**
 * SHORT finds the template of the caller's organization, else the platform's, as an open does. LONG also finds the platform's templates.
 */
export const SHORT = { path: '/v1/templates', params: {}, within: 'template' } as const
export const LONG = {
  path: '/v1/organizations/{organization_id}/templates',
  params: { organization_id: Uuid() },
  within: 'organization',
} as const
/** Who may work on drafts (App, "Template drafts and test instances"). */
export const DEVELOPERS: Omit<PrincipalAccess, 'within'> = {
  kind: 'principal',
  roles: ['owner', 'admin'],
  keys: 'with_tool',
  refused_as: 'template_dev_mode_role',
}
/** A key also needs `exec` if the version has commands. */
export const BUILD_FORBIDDEN = { forbidden: ['template_not_of_project', ...NO_REASON] } as const
const TEMPLATE = { slug: TemplateSlug }
const VERSION = { ...TEMPLATE, version: VersionNumber }
const page = { query: Type.Object(PageQuery) }

const WHICH = { not_found: ['version_not_found', ...NO_REASON] } as const
const PUBLISHED = { ...WHICH, conflict: ['template_archived', 'version_archived'], validation_failed: ['platform_template_slug'] } as const
const ARCHIVED = { ...WHICH, validation_failed: ['platform_template_slug'] } as const

export const templatesList = appRoute({
  id: 'templates.list',
  method: 'GET',
  path: SHORT.path,
  summary: "The platform's templates and those of the caller's organizations, newest first",
  access: readers('self'),
  ...page,
  answers: { 200: { schema: TemplateList, description: 'A page' } },
  errors: {},
})

export const templatesListOfOrganization = appRoute({
  id: 'templates.list_of_organization',
  method: 'GET',
  path: LONG.path,
  summary: 'Templates of the organization, newest first',
  access: readers('organization'),
  params: Type.Object(LONG.params),
  ...page,
  answers: { 200: { schema: TemplateList, description: 'A page' } },
  errors: { not_found: NO_REASON },
})

export const templatesGet = appRoute({ id: 'templates.get', ...get(SHORT) })
export const templatesGetOfOrganization = appRoute({ id: 'templates.get_of_organization', ...get(LONG) })
export const templateVersionsList = appRoute({ id: 'template-versions.list', ...versions(SHORT) })
export const templateVersionsListOfOrganization = appRoute({ id: 'template-versions.list_of_organization', ...versions(LONG) })
export const templateVersionsGet = appRoute({ id: 'template-versions.get', ...version(SHORT) })
export const templateVersionsGetOfOrganization = appRoute({ id: 'template-versions.get_of_organization', ...version(LONG) })
export const templateVersionsPublish = appRoute({ id: 'template-versions.publish', ...publish(SHORT) })
export const templateVersionsPublishOfOrganization = appRoute({ id: 'template-versions.publish_of_organization', ...publish(LONG) })
export const templatesArchive = appRoute({ id: 'templates.archive', ...archiveAll(SHORT) })
export const templatesArchiveOfOrganization = appRoute({ id: 'templates.archive_of_organization', ...archiveAll(LONG) })
export const templateVersionsArchive = appRoute({ id: 'template-versions.archive', ...archive(SHORT) })
export const templateVersionsArchiveOfOrganization = appRoute({ id: 'template-versions.archive_of_organization', ...archive(LONG) })

export type TemplateAddress = typeof SHORT | typeof LONG

export function templateParams({ params }: TemplateAddress) {
  return Type.Unsafe<{ slug: string; organization_id?: string }>(Type.Object({ ...params, ...TEMPLATE }))
}

export function versionParams({ params }: TemplateAddress) {
  return Type.Unsafe<{ slug: string; version: number; organization_id?: string }>(Type.Object({ ...params, ...VERSION }))
}

function get(form: TemplateAddress) {
  return {
    method: 'GET',
    path: `${form.path}/{slug}`,
    summary: 'One template',
    access: readers(form.within),
    params: templateParams(form),
    answers: { 200: { schema: Template, description: 'The template' } },
    errors: { not_found: NO_REASON },
  } as const
}

function archiveAll(form: TemplateAddress) {
  return {
    method: 'POST',
    path: `${form.path}/{slug}/archive`,
    summary: 'Let no new workspace be made from a template any more, and no version of it; repeating changes nothing',
    access: administrators(form.within, 'forbidden'),
    params: templateParams(form),
    answers: { 200: { schema: Template, description: 'The template' } },
    errors: { not_found: NO_REASON, validation_failed: ['platform_template_slug'] },
  } as const
}

function versions(form: TemplateAddress) {
  return {
    method: 'GET',
    path: `${form.path}/{slug}/versions`,
    summary: 'Versions of a template, newest first; those that are not published too',
    access: readers(form.within),
    params: templateParams(form),
    ...page,
    answers: { 200: { schema: TemplateVersionList, description: 'A page' } },
    errors: { not_found: NO_REASON },
  } as const
}

function version(form: TemplateAddress) {
  return {
    method: 'GET',
    path: `${form.path}/{slug}/versions/{version}`,
    summary: 'One version of a template',
    access: readers(form.within),
    params: versionParams(form),
    answers: { 200: { schema: TemplateVersion, description: 'The version' } },
    errors: WHICH,
  } as const
}

function publish(form: TemplateAddress) {
  return {
    method: 'POST',
    path: `${form.path}/{slug}/versions/{version}/publish`,
    summary: 'Let new workspaces be made from a version; repeating changes nothing',
    access: administrators(form.within, 'forbidden'),
    params: versionParams(form),
    answers: { 200: { schema: TemplateVersion, description: 'The version' } },
    errors: PUBLISHED,
  } as const
}

function archive(form: TemplateAddress) {
  return {
    method: 'POST',
    path: `${form.path}/{slug}/versions/{version}/archive`,
    summary: 'Let no new workspace be made from a version any more; repeating changes nothing',
    access: administrators(form.within, 'forbidden'),
    params: versionParams(form),
    answers: { 200: { schema: TemplateVersion, description: 'The version' } },
    errors: ARCHIVED,
  } as const
}
