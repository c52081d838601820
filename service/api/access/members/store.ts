import type { Role } from '../../../../contract/access.ts'
import type { Reader } from '../../../db/reader.ts'
import type { Page } from '../../calls/pages.ts'

export interface MemberRow {
  id: string
  email: string
  display_name: string | null
  role: Role
  mfa_enabled: boolean
  created_at: Date
}

const MEMBER = `select m.person_id as id, p.email, p.display_name, m.role, p.mfa_enabled, m.created_at
  from memberships m join people p on p.id = m.person_id where m.organization_id = $1`

export async function readMember(reads: Reader, organization_id: string, person_id: string): Promise<MemberRow | null> {
  const [row] = await reads.rows<MemberRow>('members.one', `${MEMBER} and m.person_id = $2`, [organization_id, person_id])
  return row ?? null
}

export function listMembers(reads: Reader, organization_id: string, { below, limit }: Page): Promise<MemberRow[]> {
  const first = below === null
  return reads.rows(
    first ? 'members.list' : 'members.list:b',
    `${MEMBER} ${first ? '' : 'and uuid_send(m.person_id) < uuid_send($3::uuid)'} order by uuid_send(m.person_id) desc limit $2`,
    [organization_id, limit + 1, ...(first ? [] : [below])],
  )
}
