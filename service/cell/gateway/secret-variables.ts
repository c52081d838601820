import type { Call } from '../../http/call.ts'
import type { GivenValue, Secrets } from '../secrets/resolve.ts'
import { TRUST_VARIABLES } from '../secrets/trust.ts'
import type { MachineTicket } from './gate/ticket.ts'

/** Variables that a start gets beside what the workspace and the request give it. */
export interface GivenVariables {
  /** Where programs find the certificate authorities to trust. Any other variable of the same name wins. */
  below: Readonly<Record<string, string>>
  /** Of secrets, on top. */
  values: Readonly<Record<string, string>>
}

/**
 * What a start is given of the workspace's secrets. Where the values are placeholders, the guest is made to trust the proxy that puts the
 * real values in.
 */
export async function secretVariables(
  { entry, agent, room }: MachineTicket,
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

/** The secret that a clone names; null: it names none. Git reads the guest's own bundle of authorities, so it needs no variable. */
export async function secretForGit(
  { entry, agent, room }: MachineTicket,
  { signal }: Pick<Call, 'signal'>,
  secrets: Secrets,
  name: string | undefined,
): Promise<GivenValue | null> {
  const given = name === undefined ? null : await secrets.valueForGit(entry, name)
  const authority = given?.authority ?? (await secrets.authorityForGit(entry))
  if (authority !== null && entry.machine !== null) await secrets.trust.bring(agent, entry.id, entry.machine, authority, { signal, room })
  return given
}
