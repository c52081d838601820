import type { Logger } from 'pino'
import { EGRESS_DEFAULT, type HostEgress } from '../../../../contract/internal/host-egress.ts'
import type { Machine } from '../../../../contract/internal/host-inventory.ts'
import type { RestoreRequest, StartRequest } from '../../../../contract/internal/host.ts'
import { effectiveOf, type Effective } from '../../../core/workspaces/egress/effective.ts'
import { readEgressFacts } from '../../../core/workspaces/egress/store.ts'
import type { Db } from '../../../db/database.ts'
import { readerOf } from '../../../db/reader.ts'
import type { Clock } from '../../../lib/clock.ts'
import { isWorkspace } from '../../host/subject.ts'
import type { MachineHost } from '../../host/hostd.ts'
import type { ObservedPolicies } from './observed-policies.ts'
import { acknowledge, type ReportedPolicy } from './store.ts'

interface Enforcing {
  db: Db
  clock: Clock
  log: Logger
  book: ObservedPolicies
}

/**
 * Adds the policy to each start and restore. The host's response acknowledges the policy for that epoch.
 * Executions acknowledge nothing, and machines of other kinds bring their own policy.
 */
export function enforcing(host: MachineHost, context: Enforcing): MachineHost {
  const { book } = context
  const carry = async <Q extends StartRequest | RestoreRequest>(request: Q, verb: (request: Q) => Promise<Machine>): Promise<Machine> => {
    if (request.egress !== undefined) return verb(request)
    if (request.subject.kind === 'execution') {
      const { id } = request.subject
      const egress = await policyOf(context.db, id)
      const machine = await verb(egress === null ? request : { ...request, egress })
      // A policy change during the start reached no machine, so the machine is compared again.
      if ((await policyOf(context.db, id))?.revision !== egress?.revision) book.stale(id)
      return machine
    }
    if (!isWorkspace(request)) return verb(request)
    using _coming = book.starting(request.subject.id)
    const egress = await policyOf(context.db, request.subject.id)
    const machine = await verb(egress === null ? request : { ...request, egress })
    await note(context, machine)
    // A repeated command gets its first response, with the older policy, so the machine is compared again.
    if (machine.egress !== undefined && machine.egress.revision !== (egress?.revision ?? EGRESS_DEFAULT)) book.stale(machine.subject.id)
    return machine
  }
  const own: Pick<MachineHost, 'start' | 'restore' | 'stop'> = {
    start: (request) => carry(request, (given) => host.start(given)),
    restore: (request) => carry(request, (given) => host.restore(given)),
    async stop(request) {
      const counters = await host.stop(request)
      if (isWorkspace(request)) book.drop(request.subject.id)
      return counters
    },
  }
  // The host is the prototype, so that a method replaced later is used.
  return Object.assign(Object.create(host) as MachineHost, own)
}

export function reportedPolicyOf({ subject, epoch, fence, egress }: Machine): ReportedPolicy | null {
  return egress === undefined ? null : { workspace_id: subject.id, epoch, fence, ...egress }
}

/** @returns null for the default policy, because the host allows all egress without a policy */
async function policyOf(db: Db, workspace_id: string): Promise<HostEgress | null> {
  const [facts] = await readEgressFacts(readerOf(db), [workspace_id])
  const egress = facts === undefined ? null : hostEgress(effectiveOf(facts))
  return egress?.revision === EGRESS_DEFAULT ? null : egress
}

export function hostEgress({ effective, revision, secret_ports }: Pick<Effective, 'effective' | 'revision' | 'secret_ports'>): HostEgress {
  const { mode, rules, cidrs } = effective
  const policy = { revision, mode, rules: rules.map(({ host, ports }) => ({ host, ports })), cidrs }
  return secret_ports.length === 0 ? policy : { ...policy, secret_ports }
}

/** A failed write does not fail the start: the next comparison writes it again. */
async function note({ db, clock, log, book }: Enforcing, machine: Machine): Promise<void> {
  const said = reportedPolicyOf(machine)
  if (said === null) return
  book.put(said)
  await acknowledge(db, said, clock.now()).catch((error: unknown) => {
    log.warn({ workspace_id: said.workspace_id, err: error }, 'the state of a policy is not written yet')
  })
}
