import type { Call } from '../../http/call.ts'
import type { Secrets } from '../secrets/resolve.ts'
import { TRUST_VARIABLES } from '../secrets/trust.ts'
import type { MachineTicket } from './gate/ticket.ts'

/** Variables that a start gets beside what the workspace and the request give it. */
export interface GivenVariables {
  /** Hidden by any other of the same name: where programs find whom to trust. */
  below: Readonly<Record<string, string>>
  /** Of secrets, on top. */
  values: Readonly<Record<string, string>>
}

/** What a start is given of the workspace's secrets. With placeholders, the guest is brought to trust who puts the values in. */
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
