import { collision } from '../../core/secrets/rules.ts'
import { fail } from '../../lib/fail.ts'

/** What a workspace gives to everything that is started in it. */
export interface WorkspaceEnvironment {
  /** settings.env of its template version. */
  readonly template_env: Readonly<Record<string, string>>
  /** Its text inputs. */
  readonly inputs: Readonly<Record<string, string>>
}

/** Values of secrets that a call is given, by their names: `service/cell/secrets` finds and opens them. */
export type SecretValues = Readonly<Record<string, string>>

/**
 * The environment of what a call starts, lowest first (Cell, "Exec session"): the template's, the workspace's inputs, what the call
 * itself asks for. The guest's own environment lies below all of them. Pure.
 */
export function environmentOf(
  { template_env, inputs }: WorkspaceEnvironment,
  asked: Readonly<Record<string, string>> = {},
): Record<string, string> {
  return { ...template_env, ...inputs, ...asked }
}

/**
 * The same with the secrets that are added on top. A name that has a value already, the guest's own variables included, is refused: neither
 * may hide the other. Pure.
 */
export function environmentWith(
  environment: WorkspaceEnvironment,
  asked: Readonly<Record<string, string>>,
  secrets: SecretValues,
): Record<string, string> {
  const below = environmentOf(environment, asked)
  const taken = collision(Object.keys(secrets), Object.keys(below))
  if (taken === null) return { ...below, ...secrets }
  throw fail('validation_failed', 'env_collision', `${taken} is a variable already, and a secret of the workspace`, {
    details: { name: taken },
  })
}
