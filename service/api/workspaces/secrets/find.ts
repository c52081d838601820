import type { ChangeTx } from '../../../core/changes/mutate.ts'
import type { AuditTarget } from '../../../core/changes/audit.ts'
import type { Principal } from '../../../http/call.ts'
import { fail } from '../../../lib/fail.ts'
import { maySee, maySeeOrganization, notFound } from '../../calls/scope.ts'
import { lockSecret, readSecret, type SecretRow } from './store.ts'
import type { ReadDeps } from '../../calls/deps.ts'

interface SecretCall {
  who: Principal
  params: { secret_id: string }
}

export async function findSecret(deps: ReadDeps, call: SecretCall): Promise<SecretRow> {
  return visible(call.who, await readSecret(deps.reads, call.params.secret_id))
}

export async function lockSecretForChange(tx: ChangeTx, call: SecretCall): Promise<SecretRow> {
  return visible(call.who, await lockSecret(tx, call.params.secret_id))
}

export function refuseDeletedSecret({ deleted_at }: SecretRow): void {
  if (deleted_at !== null) throw fail('conflict', 'secret_deleted', 'The secret is deleted')
}

export function secretSubject(
  { id, organization_id, project_id, name }: Pick<SecretRow, 'id' | 'organization_id' | 'project_id' | 'name'>,
  details: NonNullable<AuditTarget['details']> = {},
): AuditTarget {
  return { kind: 'secret', id, organization_id, project_id, details: { name, ...details } }
}

/** Only people see an organization's secrets. */
function visible(who: Principal, row: SecretRow | null): SecretRow {
  if (row === null) throw notFound('secret')
  const { organization_id, project_id } = row
  const is_theirs =
    project_id === null ? who.type === 'user' && maySeeOrganization(who, organization_id) : maySee(who, { organization_id, project_id })
  if (!is_theirs) throw notFound('secret')
  return row
}
