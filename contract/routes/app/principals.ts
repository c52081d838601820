import Type from 'typebox'
import { ClientVersions } from '../../schemas/client-versions.ts'
import { PageQuery, Uuid } from '../../schemas/common.ts'
import { Organization, OrganizationList, Principal, Project, ProjectList } from '../../schemas/principals.ts'
import { LIMITS } from '../../limits.ts'
import { ANYONE, readers } from '../../access.ts'
import { NO_REASON } from '../../errors.ts'
import { appRoute } from '../../route.ts'

export const clientVersions = appRoute({
  id: 'client-versions.get',
  method: 'GET',
  path: '/v1/client-versions',
  summary: 'Versions of the client packages',
  access: ANYONE,
  answers: {
    200: {
      schema: ClientVersions,
      headers: { 'Cache-Control': `public, max-age=${LIMITS.client_versions.cache_seconds}` },
      description: 'Client versions',
    },
  },
  errors: {},
})

export const me = appRoute({
  id: 'principals.me',
  method: 'GET',
  path: '/v1/me',
  summary: 'Who the credential belongs to',
  access: readers('self'),
  answers: { 200: { schema: Principal, description: 'The principal' } },
  errors: {},
})

export const organizationsList = appRoute({
  id: 'organizations.list',
  method: 'GET',
  path: '/v1/organizations',
  summary: 'Organizations of the principal',
  access: readers('self'),
  query: Type.Object(PageQuery),
  answers: { 200: { schema: OrganizationList, description: 'Organizations' } },
  errors: {},
})

export const organizationsGet = appRoute({
  id: 'organizations.get',
  method: 'GET',
  path: '/v1/organizations/{organization_id}',
  summary: 'One organization',
  access: readers('organization'),
  params: Type.Object({ organization_id: Uuid() }),
  answers: { 200: { schema: Organization, description: 'The organization' } },
  errors: { not_found: NO_REASON },
})

export const projectsList = appRoute({
  id: 'projects.list',
  method: 'GET',
  path: '/v1/organizations/{organization_id}/projects',
  summary: 'Projects of an organization that the principal may see',
  access: readers('organization'),
  params: Type.Object({ organization_id: Uuid() }),
  query: Type.Object(PageQuery),
  answers: { 200: { schema: ProjectList, description: 'Projects' } },
  errors: { not_found: NO_REASON },
})

export const projectsGet = appRoute({
  id: 'projects.get',
  method: 'GET',
  path: '/v1/projects/{project_id}',
  summary: 'One project',
  access: readers('project'),
  params: Type.Object({ project_id: Uuid() }),
  answers: { 200: { schema: Project, description: 'The project' } },
  errors: { not_found: NO_REASON },
})
