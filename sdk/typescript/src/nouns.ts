import { type App, OPERATION_MS } from './app.ts'
import { type List, listOf } from './list.ts'
import type * as wire from './schemas.ts'
import { type CallOptions, deadlineFor } from './transport.ts'

export type Of = CallOptions & {
  /** Default: the key's project. */
  project?: string
}
type OfOrganization = CallOptions & {
  /** Default: the organization of the key or the person. */
  organization?: string
}
type IfMatch = { if_match?: number }

const inProject =
  (app: App, below: string, { project }: Of = {}) =>
  async () =>
    `/v1/projects/${project ?? (await app.projectId())}${below}`
const inOrganization =
  (app: App, below: string, { organization }: OfOrganization = {}) =>
  async () =>
    `/v1/organizations/${organization ?? (await app.organizationId())}${below}`

export function secretsOf(app: App) {
  return {
    list: (options?: Of): List<wire.Secret> => listOf(app, inProject(app, '/secrets', options), {}, options),
    get: (id: string, options?: CallOptions): Promise<wire.Secret> => app.call({ method: 'GET', path: `/v1/secrets/${id}` }, options),
    create: async (json: wire.SecretCreate, options?: Of): Promise<wire.Secret> =>
      app.call({ method: 'POST', path: await inProject(app, '/secrets', options)(), json }, options),
    update: (id: string, json: wire.SecretUpdate, options?: CallOptions): Promise<wire.Secret> =>
      app.call({ method: 'PATCH', path: `/v1/secrets/${id}`, json }, options),
    /** Sets a new value and erases the earlier ones. */
    rotate: (id: string, value: string, options?: CallOptions): Promise<wire.SecretVersion> =>
      app.call({ method: 'POST', path: `/v1/secrets/${id}/versions`, json: { value }, key: true }, options),
    versions: (id: string, options?: CallOptions): List<wire.SecretVersion> => listOf(app, `/v1/secrets/${id}/versions`, {}, options),
    delete: (id: string, options?: CallOptions): Promise<void> =>
      app.call({ method: 'DELETE', path: `/v1/secrets/${id}`, repeats: 'keyed' }, options),
  }
}

export function volumesOf(app: App) {
  return {
    list: (options?: Of & { include_org_shared?: boolean }): List<wire.Volume> =>
      listOf(app, inProject(app, '/volumes', options), { include_org_shared: options?.include_org_shared }, options),
    get: async (id: string, options?: Of): Promise<wire.Volume> =>
      app.call({ method: 'GET', path: await inProject(app, `/volumes/${id}`, options)() }, options),
    /** Creates a volume, and returns when it is available. */
    async create(json: wire.VolumeCreateRequest, options?: Of): Promise<wire.Volume> {
      const path = await inProject(app, '/volumes', options)()
      const { volume, operation } = await app.call<wire.VolumeAndOperation>({ method: 'POST', path, json, key: true }, options)
      await app.succeeded(operation, deadlineFor(options, OPERATION_MS))
      return app.call({ method: 'GET', path: `${path}/${volume.id}` }, options)
    },
    /** Deletes a volume, and returns when its data are gone. An attached one needs `force` and its name. */
    async delete(id: string, options: Of & { force?: boolean; confirm_name?: string } = {}): Promise<void> {
      const { force, confirm_name } = options
      const path = await inProject(app, `/volumes/${id}`, options)()
      const request = { method: 'DELETE', path, query: { force, confirm_name }, key: true }
      const { operation } = await app.call<wire.VolumeAndOperation>(request, options)
      await app.succeeded(operation, deadlineFor(options, OPERATION_MS))
    },
  }
}

/** Egress policy of a project's workspaces. */
export function egressOf(app: App) {
  return {
    get: async (options?: Of): Promise<wire.ProjectEgressPolicy> =>
      app.call({ method: 'GET', path: await inProject(app, '/egress-policy', options)() }, options),
    set: async (json: wire.EgressPolicyRequest, options: Of & IfMatch = {}): Promise<wire.ProjectEgressPolicy> => {
      const headers: Record<string, string> = options.if_match === undefined ? {} : { 'if-match': String(options.if_match) }
      return app.call({ method: 'PUT', path: await inProject(app, '/egress-policy', options)(), json, headers }, options)
    },
    versions: (options?: Of): List<wire.EgressVersion> => listOf(app, inProject(app, '/egress-policy/versions', options), {}, options),
  }
}

export interface OrganizationWorkspaceQuery {
  project_id?: string
  state?: wire.Workspace['observed_state']
  desired_state?: wire.Workspace['desired_state']
  key_prefix?: string
  include_deleted?: boolean
  lifetime?: 'persistent' | 'session' | 'any'
  purpose?: wire.Workspace['purpose'] | 'any'
}
export interface WorkspaceQuery extends OrganizationWorkspaceQuery {
  organization_id?: string
}

export interface AuditQuery {
  actor_id?: string
  action?: string
  subject_id?: string
  from?: string
  to?: string
}

/** Query for one workspace. */
export interface UsageQuery {
  from?: string
  to?: string
  granularity?: 'hour' | 'day'
  meter?: keyof wire.UsageUnits
}
export interface SeriesQuery extends UsageQuery {
  workspace_id?: string
  volume_id?: string
  project_id?: string
}

export function usageOf(app: App) {
  const read = async <T>(below: string, query: object, options?: OfOrganization): Promise<T> =>
    app.call({ method: 'GET', path: await inOrganization(app, below, options)(), query }, options)
  return {
    summary: (options?: OfOrganization) => read<wire.UsageSummary>('/usage/summary', {}, options),
    series: (query: SeriesQuery = {}, options?: OfOrganization) => read<wire.UsageSeries>('/usage', query, options),
    estimate: (query: { cpu_millis?: number; memory_mib?: number; hours?: number } = {}, options?: OfOrganization) =>
      read<wire.UsageEstimate>('/usage/estimate', query, options),
    spend: (options?: OfOrganization) => read<wire.Spend>('/spend', {}, options),
    spendPolicy: (options?: OfOrganization) => read<wire.SpendPolicy>('/spend-policy', {}, options),
    /** Returns the organization's limits. */
    entitlements: (options?: OfOrganization) => read<wire.Entitlements>('/entitlements', {}, options),
    /** Returns the plan, and whether it refuses starts. */
    subscription: (options?: OfOrganization) => read<wire.Subscription>('/subscription', {}, options),
    /** Lists credits. */
    grants: (options?: OfOrganization): List<wire.UsageGrant> => listOf(app, inOrganization(app, '/usage/grants', options), {}, options),
    plans: (options?: CallOptions): List<wire.Plan> => listOf(app, '/v1/plans', {}, options),
  }
}

export function organizationsOf(app: App) {
  return {
    list: (options?: CallOptions): List<wire.Organization> => listOf(app, '/v1/organizations', {}, options),
    get: async (options?: OfOrganization): Promise<wire.Organization> =>
      app.call({ method: 'GET', path: await inOrganization(app, '', options)() }, options),
    projects: (options?: OfOrganization): List<wire.Project> => listOf(app, inOrganization(app, '/projects', options), {}, options),
    /** Lists workspaces of all its projects. */
    workspaces: (query: OrganizationWorkspaceQuery = {}, options?: OfOrganization): List<wire.Workspace> =>
      listOf(app, inOrganization(app, '/workspaces', options), query, options),
    audit: (query: AuditQuery = {}, options?: OfOrganization): List<wire.AuditEvent> =>
      listOf(app, inOrganization(app, '/audit', options), query, options),
  }
}

export function projectsOf(app: App) {
  return {
    get: async (options?: Of): Promise<wire.Project> => app.call({ method: 'GET', path: await inProject(app, '', options)() }, options),
    /** Creates a project. Only for a person's session. */
    create: async (json: wire.NewName, options?: OfOrganization): Promise<wire.Project> =>
      app.call({ method: 'POST', path: await inOrganization(app, '/projects', options)(), json }, options),
    /** Renames a project. Only for a person's session. */
    update: async (json: wire.Rename, options?: Of): Promise<wire.Project> =>
      app.call({ method: 'PATCH', path: await inProject(app, '', options)(), json }, options),
  }
}

/** Members and invitations. Only for a person's session. */
export function membersOf(app: App) {
  return {
    list: (options?: OfOrganization): List<wire.Member> => listOf(app, inOrganization(app, '/members', options), {}, options),
    update: async (person_id: string, json: wire.MemberUpdate, options?: OfOrganization): Promise<wire.Member> =>
      app.call({ method: 'PATCH', path: await inOrganization(app, `/members/${person_id}`, options)(), json }, options),
    remove: async (person_id: string, options?: OfOrganization): Promise<void> =>
      app.call({ method: 'DELETE', path: await inOrganization(app, `/members/${person_id}`, options)() }, options),
    invitations: (options?: OfOrganization): List<wire.Invitation> =>
      listOf(app, inOrganization(app, '/invitations', options), {}, options),
    invite: async (json: wire.InvitationCreate, options?: OfOrganization): Promise<wire.Invitation> =>
      app.call({ method: 'POST', path: await inOrganization(app, '/invitations', options)(), json }, options),
    /** Sends the mail again. */
    resendInvitation: async (id: string, options?: OfOrganization): Promise<wire.Invitation> =>
      app.call({ method: 'POST', path: await inOrganization(app, `/invitations/${id}/resend`, options)() }, options),
    deleteInvitation: async (id: string, options?: OfOrganization): Promise<void> =>
      app.call({ method: 'DELETE', path: await inOrganization(app, `/invitations/${id}`, options)() }, options),
  }
}

/** API keys. Only for a person's session. */
export function keysOf(app: App) {
  return {
    list: (options?: Of): List<wire.ApiKey> => listOf(app, inProject(app, '/api-keys', options), {}, options),
    get: async (id: string, options?: Of): Promise<wire.ApiKey> =>
      app.call({ method: 'GET', path: await inProject(app, `/api-keys/${id}`, options)() }, options),
    /** Creates a key. Only this answer contains the whole key. */
    create: async (json: wire.ApiKeyCreate, options?: Of): Promise<wire.ApiKeyCreated> =>
      app.call({ method: 'POST', path: await inProject(app, '/api-keys', options)(), json }, options),
    update: async (id: string, json: wire.ApiKeyUpdate, options?: Of): Promise<wire.ApiKey> =>
      app.call({ method: 'PATCH', path: await inProject(app, `/api-keys/${id}`, options)(), json }, options),
    revoke: async (id: string, options?: Of): Promise<void> =>
      app.call({ method: 'DELETE', path: await inProject(app, `/api-keys/${id}`, options)() }, options),
  }
}
