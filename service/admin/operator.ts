import { userInfo } from 'node:os'
import type { ChangeOrigin } from '../core/changes/audit.ts'
import type { Clock } from '../lib/clock.ts'
import type { Ids } from '../lib/ids.ts'

/** With sudo, the operator is the account that became root. */
export function byOperator({ clock, ids }: { clock: Clock; ids: Ids }): ChangeOrigin {
  return { actor: { kind: 'operator', name: accountName() }, ids, now: clock.now(), request_id: null, source_address: null }
}

function accountName(): string {
  const { SUDO_USER } = process.env
  if (SUDO_USER !== undefined && SUDO_USER !== '') return SUDO_USER
  try {
    return userInfo().username
  } catch {
    return `uid ${process.getuid?.() ?? 'unknown'}` // the account has no user entry
  }
}
