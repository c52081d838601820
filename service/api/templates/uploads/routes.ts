import { templateLanguagesList, templatePackagesList } from '../../../../contract/routes/app/template-packages.ts'
import {
  templateUploadsCreate,
  templateUploadsDelete,
  templateUploadsGet,
  templateUploadsPart,
} from '../../../../contract/routes/app/template-uploads.ts'
import { bind, type Bound } from '../../../http/call.ts'
import type { ApiDeps } from '../../deps.ts'
import type { WaitPermit } from '../../calls/held-places.ts'
import { listLanguages, listPackages } from '../packages/lookup.ts'
import { createUpload, getUpload, putPart, removeOneUpload } from './uploads.ts'

export const TEMPLATE_SOURCE_ROUTES: readonly Bound<ApiDeps, WaitPermit>[] = [
  bind(templateUploadsCreate, createUpload),
  bind(templateUploadsGet, getUpload),
  bind(templateUploadsPart, putPart),
  bind(templateUploadsDelete, removeOneUpload),
  bind(templatePackagesList, listPackages),
  bind(templateLanguagesList, listLanguages),
]
