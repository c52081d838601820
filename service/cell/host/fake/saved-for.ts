import type { RestoreRequest } from '../../../../contract/internal/host.ts'
import { HostFailure, type HostFailureCode } from '../hostd.ts'
import { subjectName } from '../subject.ts'

/** The checkpoint to restore: the subject's own, or another's with memory, which requires a new identity. */
export function savedFor<S extends { info: { disk_only?: boolean } }>(
  checkpoints: ReadonlyMap<string, ReadonlyMap<string, S>>,
  { of, subject, checkpoint_id, renew_identity }: RestoreRequest,
): S {
  if (of !== undefined && renew_identity !== true) throw refusal('bad_request', 'The identity of another is renewed')
  const saved = checkpoints.get(subjectName(of ?? subject))?.get(checkpoint_id)
  if (saved === undefined) throw refusal('not_found', 'There is no such checkpoint')
  if (saved.info.disk_only === true && of !== undefined) throw refusal('checkpoint_incompatible', 'The checkpoint holds no memory')
  return saved
}

function refusal(code: HostFailureCode, message: string): HostFailure {
  return new HostFailure(code, message, { retryable: false })
}
