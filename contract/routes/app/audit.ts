import Type from 'typebox'
import { administrators } from '../../access.ts'
import { ALONE } from '../../errors.ts'
import { appRoute } from '../../route.ts'
import { AuditEventList, AuditQuery } from '../../schemas/audit.ts'
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
  errors: { not_found: ALONE },
})
