import Type from 'typebox'
import { ClientVersions } from '../../schemas/client-versions.ts'
import { PageQuery, Uuid } from '../../schemas/common.ts'
import { Organization, OrganizationList, Principal, Project, ProjectList } from '../../schemas/principals.ts'
import { LIMITS } from '../../limits.ts'
import { appRoute } from '../../route.ts'

export const clientVersions = appRoute({
  id: 'client-versions.get',
  method: 'GET',
  path: '/v1/client-versions',
  summary: 'Versions of the client packages',
  auth: 'none',
  answers: {
    200: {
      schema: ClientVersions,
      headers: { 'Cache-Control': `public, max-age=${LIMITS.client_versions_cache_seconds}` },
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
  auth: 'principal',
  answers: { 200: { schema: Principal, description: 'The principal' } },
  errors: {},
})

export const organizationsList = appRoute({
  id: 'organizations.list',
  method: 'GET',
  path: '/v1/organizations',
  summary: 'Organizations of the principal',
  auth: 'principal',
  query: Type.Object(PageQuery),
  answers: { 200: { schema: OrganizationList, description: 'Organizations' } },
  errors: {},
})

export const organizationsGet = appRoute({
  id: 'organizations.get',
  method: 'GET',
  path: '/v1/organizations/{organization_id}',
  summary: 'One organization',
  auth: 'principal',
  params: Type.Object({ organization_id: Uuid() }),
  answers: { 200: { schema: Organization, description: 'The organization' } },
  errors: { not_found: [] },
})

export const projectsList = appRoute({
  id: 'projects.list',
  method: 'GET',
  path: '/v1/organizations/{organization_id}/projects',
  summary: 'Projects of an organization that the principal may see',
  auth: 'principal',
  params: Type.Object({ organization_id: Uuid() }),
  query: Type.Object(PageQuery),
  answers: { 200: { schema: ProjectList, description: 'Projects' } },
  errors: { not_found: [] },
})

export const projectsGet = appRoute({
  id: 'projects.get',
  method: 'GET',
  path: '/v1/projects/{project_id}',
  summary: 'One project',
  auth: 'principal',
  params: Type.Object({ project_id: Uuid() }),
  answers: { 200: { schema: Project, description: 'The project' } },
  errors: { not_found: [] },
})
