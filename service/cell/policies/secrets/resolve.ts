import type { Logger } from 'pino'
import { LIMITS } from '../../../../contract/limits.ts'
import type { Opener } from '../../../core/keys/ring/sealed-values.ts'
import { placeholderOf } from '../../../core/secrets/authority.ts'
import { openSecret } from '../../../core/secrets/envelope.ts'
import { mayBeBound, mayUse } from '../../../core/secrets/rules.ts'
import { readerOf, type Reader } from '../../../db/reader.ts'
import type { Db } from '../../../db/database.ts'
import { createBuckets, type Buckets } from '../../../http/buckets.ts'
import { databaseIsUnavailable } from '../../../http/database-failure.ts'
import type { Clock } from '../../../lib/clock.ts'
import { fail, type Failure } from '../../../lib/fail.ts'
import type { Authorities, KnownAuthority } from './authorities.ts'
import { createTrust, type Trust } from './trust.ts'
import { findSecrets, type FoundSecret, type SecretLookup } from './store.ts'

/** Finds secret values for commands and terminals. The values are stored nowhere. */
export interface Secrets {
  trust: Trust
  /**
   * Values of bound secrets that the workspace may use, and of the secrets that the call names.
   * @throws if a named secret may not be used
   */
  valuesFor(workspace: SecretLookup & { has_secrets: boolean }, tool: 'exec' | 'pty', names: readonly string[]): Promise<ResolvedSecrets>
  /** @returns the secret that a clone names. A token with `git` can send it anywhere, so the secret's own terms must allow `git`. */
  valueForGit(workspace: SecretLookup, name: string): Promise<ResolvedSecret>
  /** Authority that git must trust, because the proxy terminates connections to hosts of bound secrets. null: there are none. */
  authorityForGit(workspace: SecretLookup & { has_secrets: boolean }): Promise<KnownAuthority | null>
}

export interface ResolvedSecret {
  /** With an authority this is a placeholder: the proxy replaces it with the value, on the way to the secret's hosts only. */
  value: string
  authority: KnownAuthority | null
}

export interface ResolvedSecrets {
  /** Values by name; placeholders for secrets that are injected. */
  values: Record<string, string>
  /** Authority that the guest must trust; null: no secret is injected. */
  authority: KnownAuthority | null
}

const NOTHING: ResolvedSecrets = { values: {}, authority: null }

interface SecretsDeps {
  db: Db
  opener: Opener
  authorities: Authorities
  clock: Clock
  log: Logger
}

interface SecretsState extends SecretsDeps {
  readonly reads: Reader
  /** Bounds how often the secrets of each workspace are opened. */
  readonly budgets: Buckets
}

type Workspace = SecretLookup & { has_secrets: boolean }

export function createSecrets(deps: SecretsDeps, per_minute: number = LIMITS.secret.resolutions_per_minute): Secrets {
  const limits = { tokens: per_minute, seconds: 60, names_max: LIMITS.caller.callers_counted_max }
  const state: SecretsState = { ...deps, reads: readerOf(deps.db), budgets: createBuckets(limits, deps.clock) }
  return {
    trust: createTrust(deps.log),
    valuesFor: (workspace, tool, names) => valuesFor(state, workspace, tool, names),
    valueForGit: (workspace, name) => valueForGit(state, workspace, name),
    authorityForGit: (workspace) => authorityForGit(state, workspace),
  }
}

async function valuesFor(
  state: SecretsState,
  workspace: Workspace,
  tool: 'exec' | 'pty',
  names: readonly string[],
): Promise<ResolvedSecrets> {
  const found = await find(state, workspace, names)
  const usable = found.filter((secret) => isUsable(secret, workspace, tool))
  const refused = names.filter((name) => !usable.some((secret) => secret.name === name))
  if (refused.length > 0) throw notAvailable(refused, 'The workspace may not use these secrets')
  return usable.length === 0 ? NOTHING : openAll(state, workspace, usable)
}

async function valueForGit(state: SecretsState, workspace: SecretLookup, name: string): Promise<ResolvedSecret> {
  const found = await findSecrets(state.reads, workspace, [name])
  const usable = found.filter((secret) => secret.name === name && isUsable(secret, workspace, 'git'))
  const { values, authority } = usable.length === 0 ? NOTHING : await openAll(state, workspace, usable)
  const value = values[name]
  if (value !== undefined) return { value, authority }
  throw notAvailable(
    [name],
    'The workspace may not use this secret for git: the secret must be live and its allowed_tools must include git',
  )
}

async function authorityForGit(state: SecretsState, workspace: Workspace): Promise<KnownAuthority | null> {
  const found = workspace.has_secrets ? await find(state, workspace, []) : []
  const is_led = found.some((secret) => secret.hosts !== null && isUsable(secret, workspace, 'git'))
  return is_led ? authorityOf(state, workspace) : null
}

/** Reads the database each time, so that a new binding applies at once. During an outage only workspaces without secrets continue. */
async function find({ reads }: SecretsState, workspace: Workspace, names: readonly string[]): Promise<FoundSecret[]> {
  try {
    return await findSecrets(reads, workspace, names)
  } catch (error) {
    if (!workspace.has_secrets && names.length === 0 && databaseIsUnavailable(error)) return []
    throw error
  }
}

async function openAll(state: SecretsState, workspace: SecretLookup, usable: readonly FoundSecret[]): Promise<ResolvedSecrets> {
  const retry_after_seconds = state.budgets.take(workspace.id)
  if (retry_after_seconds > 0) {
    throw fail('rate_limited', null, 'Secrets of the workspace are read too often', { retry_after_seconds })
  }
  const authority = usable.some(({ hosts }) => hosts !== null) ? await authorityOf(state, workspace) : null
  const values = await Promise.all(usable.map(async (secret) => [secret.name, await open(state, workspace, secret, authority)] as const))
  return { values: Object.fromEntries(values), authority }
}

async function open(
  { opener, log }: SecretsState,
  workspace: SecretLookup,
  secret: FoundSecret,
  authority: KnownAuthority | null,
): Promise<string> {
  const { secret_id, version, name, key_id } = secret
  if (authority !== null && secret.hosts !== null) return placeholderOf(authority.private_key, secret_id)
  try {
    return await openFound(opener, secret)
  } catch (error) {
    // The cause may be logged: it cannot contain the value, which could not be opened.
    log.error({ err: error, workspace_id: workspace.id, secret_id, version, key_id }, 'a secret could not be opened')
    throw fail('dependency_unavailable', null, `The secret ${name} cannot be read at the moment`, { retry_after_seconds: 5 })
  }
}

async function authorityOf({ authorities, log }: SecretsState, workspace: SecretLookup): Promise<KnownAuthority> {
  try {
    return await authorities.of(workspace.id)
  } catch (error) {
    if (databaseIsUnavailable(error)) throw error
    log.error({ err: error, workspace_id: workspace.id }, "a workspace's authority could not be opened")
    throw fail('dependency_unavailable', null, "The workspace's authority cannot be read at the moment", { retry_after_seconds: 5 })
  }
}

function notAvailable(names: string[], message: string): Failure {
  return fail('forbidden', 'secret_not_available', message, { details: { names } })
}

/** An injected secret must be bound, since bindings decide which connections go through the proxy. */
function isUsable(secret: FoundSecret, { project_id, id: workspace_id }: SecretLookup, tool: 'exec' | 'pty' | 'git'): boolean {
  const user = { project_id, workspace_id }
  return secret.hosts === null ? mayUse(secret, user, [tool]) : secret.is_bound && mayBeBound(secret, user)
}

export function openFound(opener: Opener, secret: FoundSecret): Promise<string> {
  const { organization_id, secret_id, version, key_id, wrapped_key, ciphertext } = secret
  return openSecret(opener, { organization_id, secret_id, version }, { key_id, wrapped_key, ciphertext })
}
