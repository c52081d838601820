import Type from 'typebox'
import { Email } from './auth.ts'
import { strict, Text } from './common.ts'

export const AccountDelete = Type.Object(
  { confirm_email: Email() },
  { ...strict, title: 'AccountDelete', description: 'The address of the account, so that nobody deletes another one than they mean' },
)

export const OrganizationDelete = Type.Object(
  { confirm_slug: Text({ minLength: 1, maxLength: 200 }) },
  {
    ...strict,
    title: 'OrganizationDelete',
    description: 'The slug of the organization, so that nobody deletes another one than they mean',
  },
)
