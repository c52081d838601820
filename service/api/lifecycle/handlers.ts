import { createOrganization } from './organizations/create.ts'
import { deleteAccount } from './account/delete.ts'
import { deleteOrganization } from './organizations/delete.ts'
import { getOrganization } from './organizations/get.ts'
import { listOwnOrganizations } from './organizations/list.ts'
import { renameOrganization } from './organizations/update.ts'

export const LIFECYCLE_HANDLERS = {
  'organizations.list': listOwnOrganizations,
  'organizations.get': getOrganization,
  'organizations.create': createOrganization,
  'organizations.update': renameOrganization,
  'account.delete': deleteAccount,
  'organizations.delete': deleteOrganization,
}
