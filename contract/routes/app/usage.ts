import Type from 'typebox'
import { readers } from '../../access.ts'
import { NO_REASON } from '../../errors.ts'
import { appRoute } from '../../route.ts'
import { Uuid } from '../../schemas/common.ts'
import { UsageQuery, UsageSeries, UsageSummary, WorkspaceUsageQuery } from '../../schemas/usage.ts'
import { workspaceParams } from './workspaces.ts'

const organizationParams = Type.Object({ organization_id: Uuid() })

export const usageSummary = appRoute({
  id: 'usage.summary',
  method: 'GET',
  path: '/v1/organizations/{organization_id}/usage/summary',
  summary: 'What was used in the billing period, and what of the allowances is left; an API key is told the usage of its project',
  access: readers('organization'),
  params: organizationParams,
  answers: { 200: { schema: UsageSummary, description: 'The current period' } },
  errors: { not_found: NO_REASON },
})

export const usageSeries = appRoute({
  id: 'usage.series',
  method: 'GET',
  path: '/v1/organizations/{organization_id}/usage',
  summary: 'What was used, by hour or by day',
  access: readers('organization'),
  params: organizationParams,
  query: UsageQuery,
  answers: { 200: { schema: UsageSeries, description: 'A series for each meter' } },
  errors: { not_found: NO_REASON },
})

export const usageOfWorkspace = appRoute({
  id: 'usage.workspace',
  method: 'GET',
  path: '/v1/workspaces/{workspace_id}/usage',
  summary: 'What a workspace used, by hour or by day; of a deleted one too',
  access: readers('workspace'),
  params: workspaceParams,
  query: WorkspaceUsageQuery,
  answers: { 200: { schema: UsageSeries, description: 'A series for each meter' } },
  errors: { not_found: NO_REASON },
})
