import type { Secret, SecretVersion } from '../../../../contract/schemas/secrets.ts'
import type { SecretRow, VersionRow } from './store.ts'

export function secretView({ created_at, updated_at, deleted_at, ...row }: SecretRow): Secret {
  return {
    ...row,
    created_at: created_at.toISOString(),
    updated_at: updated_at.toISOString(),
    deleted_at: deleted_at?.toISOString() ?? null,
  }
}

export function versionView({ created_at, erased_at, ...row }: VersionRow): SecretVersion {
  return { ...row, created_at: created_at.toISOString(), erased_at: erased_at?.toISOString() ?? null }
}
