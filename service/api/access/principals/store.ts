import type { Principal } from '../../../../contract/schemas/principals.ts'
import type { Reader } from '../../../db/reader.ts'

type User = NonNullable<Principal['user']>
type Membership = Principal['memberships'][number]

export async function readPerson(reads: Reader, id: string): Promise<User | null> {
  const text = 'select id, email, email_verified, display_name, mfa_enabled from people where id = $1'
  const [row] = await reads.rows<User>('people.by_id', text, [id])
  return row ?? null
}

export function listMemberships(reads: Reader, person_id: string): Promise<Membership[]> {
  return reads.rows(
    'people.memberships',
    `select m.organization_id, g.name as organization_name, g.slug as organization_slug, m.role
     from memberships m join organizations g on g.id = m.organization_id where m.person_id = $1 and g.deleted_at is null order by g.id desc`,
    [person_id],
  )
}
