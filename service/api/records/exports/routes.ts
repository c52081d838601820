import {
  exportsContent,
  exportsContentOfOrganization,
  exportsCreate,
  exportsCreateOfOrganization,
  exportsGet,
  exportsGetOfOrganization,
  exportsList,
  exportsListOfOrganization,
} from '../../../../contract/routes/app/exports.ts'
import { bind, type Bound } from '../../../http/call.ts'
import type { ApiDeps } from '../../deps.ts'
import type { WaitPermit } from '../../calls/held-places.ts'
import { createExport } from './create.ts'
import { getExport, listAllExports, readContent } from './read.ts'

export const EXPORT_BOUND: readonly Bound<ApiDeps, WaitPermit>[] = [
  bind(exportsCreate, createExport),
  bind(exportsList, listAllExports),
  bind(exportsGet, getExport),
  bind(exportsContent, readContent),
  bind(exportsCreateOfOrganization, createExport),
  bind(exportsListOfOrganization, listAllExports),
  bind(exportsGetOfOrganization, getExport),
  bind(exportsContentOfOrganization, readContent),
]
