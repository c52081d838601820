import Type from 'typebox'
import { readers } from '../../access.ts'
import { NO_REASON } from '../../errors.ts'
import { appRoute } from '../../route.ts'
import { Uuid } from '../../schemas/common.ts'
import { AccountDelete, OrganizationDelete } from '../../schemas/deletions.ts'
import { Operation } from '../../schemas/operations.ts'

export const accountDelete = appRoute({
  id: 'account.delete',
  method: 'DELETE',
  path: '/v1/me',
  summary: 'Delete the own account, after a password check: its sessions, memberships and everything that it signs in with. For good',
  revokes: 'everywhere',
  access: { ...readers('self'), keys: 'forbidden', step_up: true },
  body: AccountDelete,
  answers: { 204: { description: 'There is no such account any more; its address may register anew' } },
  errors: { conflict: ['organization_ownership'] },
})

export const organizationsDelete = appRoute({
  id: 'organizations.delete',
  method: 'DELETE',
  path: '/v1/organizations/{organization_id}',
  summary: 'Delete an organization with all that is in it, after a password check. For good; from the answer on nobody else is in it',
  revokes: 'everywhere',
  access: { kind: 'principal', within: 'organization', roles: ['owner'], keys: 'forbidden', step_up: true },
  params: Type.Object({ organization_id: Uuid() }),
  body: OrganizationDelete,
  answers: {
    202: { schema: Operation, description: 'The operation, which whoever asked for it reads until it is over, and for 30 days more' },
  },
  errors: { not_found: NO_REASON, conflict: ['subscription_active', 'checkout_pending'] },
})
