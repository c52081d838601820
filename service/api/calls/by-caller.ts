import type { ChangeOrigin } from '../../core/changes/audit.ts'
import type { Call } from '../../http/call.ts'
import type { CallDeps } from './deps.ts'

export type Changing = Pick<Call, 'who' | 'now' | 'request_id' | 'address'>

export function byCaller({ ids }: Pick<CallDeps, 'ids'>, { who, now, request_id, address }: Changing): ChangeOrigin {
  return { actor: { kind: who.type, id: who.id }, ids, now, request_id, source_address: address === '' ? null : address }
}
