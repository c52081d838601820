import {
  templateFilesDiff,
  templateFilesDiffOfOrganization,
  templateFilesList,
  templateFilesListOfOrganization,
} from '../../../../contract/routes/app/template-files.ts'
import { templatesArchive, templatesArchiveOfOrganization } from '../../../../contract/routes/app/templates.ts'
import { bind, type Bound } from '../../../http/call.ts'
import type { ApiDeps } from '../../deps.ts'
import type { WaitPermit } from '../../calls/held-places.ts'
import { archiveTemplate } from '../archive.ts'
import { compareFiles } from './diff.ts'
import { listFiles } from './list.ts'

export const TEMPLATE_FILE_ROUTES: readonly Bound<ApiDeps, WaitPermit>[] = [
  bind(templateFilesList, listFiles),
  bind(templateFilesListOfOrganization, listFiles),
  bind(templateFilesDiff, compareFiles),
  bind(templateFilesDiffOfOrganization, compareFiles),
  bind(templatesArchive, archiveTemplate),
  bind(templatesArchiveOfOrganization, archiveTemplate),
]
