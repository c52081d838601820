import Type, { type Static } from 'typebox'
import { TOOLS } from '../route.ts'
import { List, Nullable, Timestamp, Uuid, Enum } from './common.ts'

export const ROLES = ['owner', 'admin', 'member', 'billing'] as const
export const Role = Enum(ROLES)

/** See the specification (App, "Principal"). */
export const Principal = Type.Object(
  {
    type: Enum(['user', 'api_key']),
    user: Nullable(
      Type.Object({
        id: Uuid(),
        email: Type.String(),
        email_verified: Type.Boolean(),
        display_name: Nullable(Type.String()),
        mfa_enabled: Type.Boolean(),
      }),
    ),
    memberships: Type.Array(
      Type.Object({ organization_id: Uuid(), organization_name: Type.String(), organization_slug: Type.String(), role: Role }),
    ),
    api_key: Nullable(
      Type.Object({
        id: Uuid(),
        key_id: Type.String(),
        organization_id: Uuid(),
        project_id: Uuid(),
        tool_permissions: Type.Array(Enum(TOOLS)),
      }),
    ),
  },
  { title: 'Principal' },
)
export type Principal = Static<typeof Principal>

export const Organization = Type.Object(
  { id: Uuid(), name: Type.String(), slug: Type.String(), role: Nullable(Role), created_at: Timestamp() },
  { title: 'Organization' },
)
export type Organization = Static<typeof Organization>
export const OrganizationList = List(Organization, 'OrganizationList')

export const Project = Type.Object(
  { id: Uuid(), organization_id: Uuid(), name: Type.String(), slug: Type.String(), created_at: Timestamp() },
  { title: 'Project' },
)
export type Project = Static<typeof Project>
export const ProjectList = List(Project, 'ProjectList')
