import Type from 'typebox'
import { administrators, readers, type PrincipalAccess } from '../../access.ts'
import { NO_REASON } from '../../errors.ts'
import { appRoute } from '../../route.ts'
import { PageQuery, Uuid } from '../../schemas/common.ts'
import { Export, ExportList } from '../../schemas/exports.ts'

// Only people may export (App, "Authentication" 2).
const OWN: PrincipalAccess = { ...readers('self'), keys: 'forbidden' }
const OF_ORGANIZATION: PrincipalAccess = administrators('organization', 'forbidden')
const Organization = Type.Object({ organization_id: Uuid() })
const Own = Type.Object({ account_export_id: Uuid() })
const Both = Type.Object({ organization_id: Uuid(), export_id: Uuid() })
const query = Type.Object(PageQuery)

const BEGUN = { 202: { schema: Export, description: 'It is made in the background; where one is under way, that one' } }
const LISTED = { 200: { schema: ExportList, description: 'A page' } }
const SHOWN = { 200: { schema: Export, description: 'The export' } }
const CONTENT = {
  200: {
    content: { 'application/gzip': null },
    description: 'A tar of files with one JSON object a line. Its last file, manifest.json, says what is in each and what is left out',
  },
}
/** Reason null: the export is not finished (retry), or has failed. */
const NO_CONTENT = { not_found: NO_REASON, conflict: [null, 'export_expired', 'export_too_large'] } as const

export const exportsCreate = appRoute({
  id: 'exports.create',
  method: 'POST',
  path: '/v1/me/exports',
  summary: 'Make an archive of what is kept of the own account, after a password check',
  access: { ...OWN, step_up: true },
  answers: BEGUN,
  errors: {},
})

export const exportsList = appRoute({
  id: 'exports.list',
  method: 'GET',
  path: '/v1/me/exports',
  summary: 'Exports of the own account, newest first',
  access: OWN,
  query,
  answers: LISTED,
  errors: {},
})

export const exportsGet = appRoute({
  id: 'exports.get',
  method: 'GET',
  path: '/v1/me/exports/{account_export_id}',
  summary: 'An export of the own account',
  access: OWN,
  params: Own,
  answers: SHOWN,
  errors: { not_found: NO_REASON },
})

export const exportsContent = appRoute({
  id: 'exports.content',
  method: 'GET',
  path: '/v1/me/exports/{account_export_id}/content',
  summary: 'The archive of an account, after a password check',
  access: { ...OWN, step_up: true },
  params: Own,
  answers: CONTENT,
  errors: NO_CONTENT,
})

export const exportsCreateOfOrganization = appRoute({
  id: 'exports.create_of_organization',
  method: 'POST',
  path: '/v1/organizations/{organization_id}/exports',
  summary: 'Make an archive of what is recorded of an organization, after a password check',
  access: { ...OF_ORGANIZATION, step_up: true },
  params: Organization,
  answers: BEGUN,
  errors: { not_found: NO_REASON },
})

export const exportsListOfOrganization = appRoute({
  id: 'exports.list_of_organization',
  method: 'GET',
  path: '/v1/organizations/{organization_id}/exports',
  summary: 'Exports of an organization, newest first',
  access: OF_ORGANIZATION,
  params: Organization,
  query,
  answers: LISTED,
  errors: { not_found: NO_REASON },
})

export const exportsGetOfOrganization = appRoute({
  id: 'exports.get_of_organization',
  method: 'GET',
  path: '/v1/organizations/{organization_id}/exports/{export_id}',
  summary: 'An export of an organization',
  access: OF_ORGANIZATION,
  params: Both,
  answers: SHOWN,
  errors: { not_found: NO_REASON },
})

export const exportsContentOfOrganization = appRoute({
  id: 'exports.content_of_organization',
  method: 'GET',
  path: '/v1/organizations/{organization_id}/exports/{export_id}/content',
  summary: 'The archive of an organization, after a password check',
  access: { ...OF_ORGANIZATION, step_up: true },
  params: Both,
  answers: CONTENT,
  errors: NO_CONTENT,
})
