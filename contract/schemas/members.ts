import Type, { type Static } from 'typebox'
import { LIMITS } from '../limits.ts'
import { TOOLS } from '../tools.ts'
import { Email, EmailedToken } from './auth.ts'
import { List, Nullable, PageQuery, strict, Text, Timestamp, Uuid, Enum } from './common.ts'
import { Role } from './principals.ts'

const { organization: limits } = LIMITS
const Name = Text({ minLength: 1, maxLength: limits.name_characters_max })
const Slug = Type.String({
  pattern: '^[a-z0-9]([a-z0-9-]*[a-z0-9])?$',
  minLength: 1,
  maxLength: limits.slug_characters_max,
  description: 'Small letters, digits and hyphens; stays as it is. Absent: made of the name',
})

export const NewName = Type.Object({ name: Name, slug: Type.Optional(Slug) }, { ...strict, title: 'NewName' })
export const Rename = Type.Object({ name: Name }, { ...strict, title: 'Rename' })

export const Member = Type.Object(
  {
    person_id: Uuid(),
    email: Type.String(),
    display_name: Nullable(Type.String()),
    role: Role,
    mfa_enabled: Type.Boolean(),
    created_at: Timestamp('Since when they are a member'),
  },
  { title: 'Member' },
)
export type Member = Static<typeof Member>
export const MemberList = List(Member, 'MemberList')
export const MemberUpdate = Type.Object({ role: Role }, { ...strict, title: 'MemberUpdate' })

export const InvitationCreate = Type.Object({ email: Email(), role: Role }, { ...strict, title: 'InvitationCreate' })
export const Invitation = Type.Object(
  {
    id: Uuid(),
    organization_id: Uuid(),
    email: Type.String(),
    role: Role,
    invited_by: Nullable(Uuid('The person')),
    created_at: Timestamp(),
    expires_at: Timestamp(),
  },
  { title: 'Invitation' },
)
export type Invitation = Static<typeof Invitation>
export const InvitationList = List(Invitation, 'InvitationList')
export const InvitationAccept = Type.Object({ token: EmailedToken }, { ...strict, title: 'InvitationAccept' })

const KeyName = Text({ minLength: 0, maxLength: limits.key_name_characters_max })
const ToolPermissions = Type.Array(Enum(TOOLS), { maxItems: TOOLS.length, uniqueItems: true, description: 'What its tool tokens may do' })
const ExpiresAt = Nullable(Timestamp('When it is good no more; null: only when it is revoked'))

export const ApiKeyCreate = Type.Object(
  { name: Type.Optional(KeyName), tool_permissions: ToolPermissions, expires_at: Type.Optional(ExpiresAt) },
  { ...strict, title: 'ApiKeyCreate' },
)
export const ApiKeyUpdate = Type.Object(
  { name: Type.Optional(KeyName), tool_permissions: Type.Optional(ToolPermissions), expires_at: Type.Optional(ExpiresAt) },
  { ...strict, title: 'ApiKeyUpdate', description: 'What is omitted stays' },
)
const API_KEY = {
  id: Uuid(),
  key_id: Type.String({ description: 'The public part: `sfk_<key_id>_…`' }),
  organization_id: Uuid(),
  project_id: Uuid(),
  name: Type.String(),
  tool_permissions: Type.Array(Enum(TOOLS)),
  created_at: Timestamp(),
  expires_at: Nullable(Timestamp()),
  revoked_at: Nullable(Timestamp()),
  last_used_at: Nullable(Timestamp('To some minutes; null: never')),
}
export const ApiKey = Type.Object(API_KEY, { title: 'ApiKey' })
export type ApiKey = Static<typeof ApiKey>
export const ApiKeyList = List(ApiKey, 'ApiKeyList')
export const ApiKeyCreated = Type.Object(
  { ...API_KEY, api_key: Type.String({ description: 'The whole key. Shown this once' }) },
  { title: 'ApiKeyCreated' },
)
export const ApiKeyQuery = Type.Object({ ...PageQuery, include_revoked: Type.Optional(Type.Boolean()) })
