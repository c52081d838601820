import Type from 'typebox'
import { administrators } from '../../access.ts'
import { NO_REASON } from '../../errors.ts'
import { appRoute } from '../../route.ts'
import { LIMITS } from '../../limits.ts'
import { AuditEvent, AuditEventList, AuditExportQuery, AuditQuery } from '../../schemas/audit.ts'
import { Uuid } from '../../schemas/common.ts'

export const auditList = appRoute({
  id: 'audit.list',
  method: 'GET',
  path: '/v1/organizations/{organization_id}/audit',
  summary: 'Who changed what in an organization, newest first. With filters a page may have fewer rows than it asks for, and go on',
  access: administrators('organization', 'forbidden'),
  params: Type.Object({ organization_id: Uuid() }),
  query: AuditQuery,
  answers: { 200: { schema: AuditEventList, description: 'A page' } },
  errors: { not_found: NO_REASON },
})

export const auditExport = appRoute({
  id: 'audit.export',
  method: 'GET',
  path: '/v1/organizations/{organization_id}/audit/export',
  summary: 'Records of an organization with their links, oldest first, after a password check; calls of tools are among them',
  access: { ...administrators('organization', 'forbidden'), step_up: true },
  params: Type.Object({ organization_id: Uuid() }),
  query: AuditExportQuery,
  answers: {
    200: {
      content: { 'application/x-ndjson': AuditEvent },
      description: `One record a line, ${LIMITS.audit.export_rows_max} at most. What is newer comes by \`after\`, until an answer is empty`,
    },
  },
  errors: { not_found: NO_REASON },
})
