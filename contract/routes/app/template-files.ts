import { readers } from '../../access.ts'
import { NO_REASON } from '../../errors.ts'
import { appRoute } from '../../route.ts'
import { TemplateDiffQuery, TemplateFileChangeList, TemplateFileList, TemplateFilesQuery } from '../../schemas/template-files.ts'
import { LONG, SHORT, versionParams, type TemplateAddress } from './templates.ts'

/** The list is refused until it is complete, because a caller could not distinguish an incomplete list. */
const LISTED = ['file_list_indexing', 'file_list_unavailable'] as const

export const templateFilesList = appRoute({ id: 'template-files.list', ...files(SHORT) })
export const templateFilesListOfOrganization = appRoute({ id: 'template-files.list_of_organization', ...files(LONG) })
export const templateFilesDiff = appRoute({ id: 'template-files.diff', ...diff(SHORT) })
export const templateFilesDiffOfOrganization = appRoute({ id: 'template-files.diff_of_organization', ...diff(LONG) })

function files(form: TemplateAddress) {
  return {
    method: 'GET',
    path: `${form.path}/{slug}/versions/{version}/files`,
    summary: 'What lies in one directory of a version, by name',
    access: readers(form.within),
    params: versionParams(form),
    query: TemplateFilesQuery,
    answers: { 200: { schema: TemplateFileList, description: 'A page' } },
    errors: { not_found: ['version_not_found', 'path_not_found', ...NO_REASON], conflict: LISTED },
  } as const
}

function diff(form: TemplateAddress) {
  return {
    method: 'GET',
    path: `${form.path}/{slug}/versions/{version}/diff`,
    summary: 'Where the files of a version differ from those of another, by path',
    access: readers(form.within),
    params: versionParams(form),
    query: TemplateDiffQuery,
    answers: {
      200: { schema: TemplateFileChangeList, description: 'A page; one that is not the last may have fewer rows than asked for' },
    },
    errors: { not_found: ['version_not_found', ...NO_REASON], conflict: LISTED },
  } as const
}
