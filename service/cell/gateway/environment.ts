import { collision } from '../../core/secrets/rules.ts'
import { fail } from '../../lib/fail.ts'

export interface WorkspaceEnvironment {
  readonly template_env: Readonly<Record<string, string>>
  readonly inputs: Readonly<Record<string, string>>
}

export type SecretValues = Readonly<Record<string, string>>

/** Later variables replace earlier ones, and all of these replace the guest's own environment (Cell, "Exec session"). */
export function environmentOf(
  { template_env, inputs }: WorkspaceEnvironment,
  asked: Readonly<Record<string, string>> = {},
): Record<string, string> {
  return { ...template_env, ...inputs, ...asked }
}

/** A secret and a variable of one name are refused, guest variables included: neither may hide the other. */
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
