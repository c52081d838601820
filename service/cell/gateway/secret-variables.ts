import type { Call } from '../../http/call.ts'
import type { ResolvedSecret, Secrets } from '../policies/secrets/resolve.ts'
import { TRUST_VARIABLES } from '../policies/secrets/trust.ts'
import type { MachineCallLease } from '../admission/call-lease.ts'

export interface GivenVariables {
  /** Paths of trusted certificate authorities. Any other variable with the same name replaces them. */
  below: Readonly<Record<string, string>>
  values: Readonly<Record<string, string>>
}

/** Makes the guest trust the proxy, which injects the values of placeholders. */
export async function secretVariables(
  { entry, agent, room }: MachineCallLease,
  { signal }: Pick<Call, 'signal'>,
  secrets: Secrets,
  tool: 'exec' | 'pty',
  names: readonly string[],
): Promise<GivenVariables> {
  const { values, authority } = await secrets.valuesFor(entry, tool, names)
  if (authority === null || entry.machine === null) return { below: {}, values }
  const is_trusted = await secrets.trust.bring(agent, entry.id, entry.machine, authority, { signal, room })
  return { below: is_trusted ? TRUST_VARIABLES : {}, values }
}

/** @returns null if the clone names no secret. Needs no variable, because Git reads the guest's own authority bundle. */
export async function secretForGit(
  { entry, agent, room }: MachineCallLease,
  { signal }: Pick<Call, 'signal'>,
  secrets: Secrets,
  name: string | undefined,
): Promise<ResolvedSecret | null> {
  const given = name === undefined ? null : await secrets.valueForGit(entry, name)
  const authority = given?.authority ?? (await secrets.authorityForGit(entry))
  if (authority !== null && entry.machine !== null) await secrets.trust.bring(agent, entry.id, entry.machine, authority, { signal, room })
  return given
}
