import { createExport } from './exports/create.ts'
import { createFeedback } from './feedback/create.ts'
import { exportAuditEvents } from './audit/export.ts'
import { getExport, listAllExports, readContent } from './exports/read.ts'
import { listAuditEvents } from './audit/list.ts'

export const RECORDS_HANDLERS = {
  'feedback.create': createFeedback,
  'audit.list': listAuditEvents,
  'audit.export': exportAuditEvents,
  'exports.create': createExport,
  'exports.list': listAllExports,
  'exports.get': getExport,
  'exports.content': readContent,
  'exports.create_of_organization': createExport,
  'exports.list_of_organization': listAllExports,
  'exports.get_of_organization': getExport,
  'exports.content_of_organization': readContent,
}
