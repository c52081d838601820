import type { Logger } from 'pino'
import { LIMITS } from '../../../contract/limits.ts'
import type { Opener } from '../../core/key-ring/sealed-values.ts'
import { openSecret } from '../../core/secrets/envelope.ts'
import { mayUse } from '../../core/secrets/rules.ts'
import { readerOf } from '../../db/reader.ts'
import type { Db } from '../../db/database.ts'
import { createBuckets } from '../../http/buckets.ts'
import { databaseIsUnavailable } from '../../http/database-failure.ts'
import type { Clock } from '../../lib/clock.ts'
import { fail } from '../../lib/fail.ts'
import { findSecrets, type FoundSecret, type Sought } from './store.ts'

/** Finds the values that a command or terminal of a workspace is given. They are nowhere kept. */
export interface Secrets {
  /**
   * Those that are bound to the workspace, as far as it may still use them for this, and those that the call names.
   * Throws where one that is named may not be used.
   */
  valuesFor(workspace: Sought & { has_secrets: boolean }, tool: 'exec' | 'pty', names: readonly string[]): Promise<Record<string, string>>
}

interface SecretsDeps {
  db: Db
  opener: Opener
  clock: Clock
  log: Logger
}

export function createSecrets({ db, opener, clock, log }: SecretsDeps, per_minute: number = LIMITS.secret.resolutions_per_minute): Secrets {
  const buckets = createBuckets({ tokens: per_minute, seconds: 60, names_max: LIMITS.caller.callers_counted_max }, clock)
  const reads = readerOf(db)

  const open = async (workspace: Sought, { secret_id, organization_id, version, name, ...sealed }: FoundSecret): Promise<string> => {
    try {
      return await openSecret(opener, { organization_id, secret_id, version }, sealed)
    } catch (error) {
      // The cause says nothing of the value: it could not be opened.
      log.error({ err: error, workspace_id: workspace.id, secret_id, version, key_id: sealed.key_id }, 'a secret could not be opened')
      throw fail('dependency_unavailable', null, `The secret ${name} cannot be read at the moment`, { retry_after_seconds: 5 })
    }
  }
  /** What was bound a moment ago counts, so the database is asked each time; without it, those go on who had none. */
  const find = async (workspace: Sought & { has_secrets: boolean }, names: readonly string[]): Promise<FoundSecret[]> => {
    try {
      return await findSecrets(reads, workspace, names)
    } catch (error) {
      if (!workspace.has_secrets && names.length === 0 && databaseIsUnavailable(error)) return []
      throw error
    }
  }
  return {
    async valuesFor(workspace, tool, names) {
      const found = await find(workspace, names)
      const usable = found.filter((secret) => mayUse(secret, { project_id: workspace.project_id, workspace_id: workspace.id }, [tool]))
      const refused = names.filter((name) => !usable.some((secret) => secret.name === name))
      if (refused.length > 0) {
        throw fail('forbidden', 'secret_not_available', 'The workspace may not use these secrets', { details: { names: refused } })
      }
      if (usable.length === 0) return {}
      const retry_after_seconds = buckets.take(workspace.id)
      if (retry_after_seconds > 0) {
        throw fail('rate_limited', null, 'Secrets of the workspace are read too often', { retry_after_seconds })
      }
      const values = await Promise.all(usable.map(async (secret) => [secret.name, await open(workspace, secret)] as const))
      return Object.fromEntries(values)
    },
  }
}
