import { readers } from '../../access.ts'
import { appRoute } from '../../route.ts'
import { PackageQuery, TemplateLanguageList, TemplatePackageList } from '../../schemas/template-packages.ts'

export const templatePackagesList = appRoute({
  id: 'template-packages.list',
  method: 'GET',
  path: '/v1/template-packages',
  summary: 'Debian packages that recipes may name, by a part of their name; 120 lookups a minute for an organization',
  access: readers('self'),
  query: PackageQuery,
  answers: {
    200: {
      schema: TemplatePackageList,
      description: 'Those that fit: the name itself, then names that begin with it, then names that have it',
    },
  },
  errors: {
    not_found: ['package_not_found'],
    conflict: ['package_index_unavailable'],
    dependency_unavailable: ['package_search_unavailable', 'package_index_loading'],
  },
})

export const templateLanguagesList = appRoute({
  id: 'template-languages.list',
  method: 'GET',
  path: '/v1/template-languages',
  summary: 'Languages that recipes may name, with their versions',
  access: readers('self'),
  answers: { 200: { schema: TemplateLanguageList, description: 'All of them' } },
  errors: {},
})
