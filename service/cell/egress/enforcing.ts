import type { Logger } from 'pino'
import { effectiveOf, DEFAULT_REVISION, type Effective } from '../../core/egress/effective.ts'
import { readEgressFacts } from '../../core/egress/store.ts'
import type { Db } from '../../db/database.ts'
import { readerOf } from '../../db/reader.ts'
import type { Clock } from '../../lib/clock.ts'
import type { HostEgress } from '../links/egress.ts'
import { isWorkspace } from '../links/subject.ts'
import type { Machine, MachineHost, RestoreRequest, StartRequest } from '../links/hostd.ts'
import type { EgressBook } from './book.ts'
import { acknowledge, type Said } from './store.ts'

interface Enforcing {
  db: Db
  clock: Clock
  log: Logger
  book: EgressBook
}

/**
 * The host, where every machine of a workspace is started and restored with what the workspace may reach, whoever starts it. What the
 * host answers is its acknowledgement for the epoch that the machine is of. Machines of other kinds bring their policy themselves.
 */
export function enforcing(host: MachineHost, context: Enforcing): MachineHost {
  const { book } = context
  const carry = async <Q extends StartRequest | RestoreRequest>(request: Q, verb: (request: Q) => Promise<Machine>): Promise<Machine> => {
    if (!isWorkspace(request) || request.egress !== undefined) return verb(request)
    using _coming = book.starting(request.subject.id)
    const machine = await verb({ ...request, ...(await policyOf(context.db, request.subject.id)) })
    await note(context, machine)
    return machine
  }
  return {
    ...host,
    start: (request) => carry(request, (given) => host.start(given)),
    restore: (request) => carry(request, (given) => host.restore(given)),
    async stop(request) {
      const counters = await host.stop(request)
      if (isWorkspace(request)) book.drop(request.subject.id)
      return counters
    },
  }
}

/** What the host says of a machine; null of a host that enforces nothing. */
export function saidOf({ subject, epoch, fence, egress }: Machine): Said | null {
  return egress === undefined ? null : { workspace_id: subject.id, epoch, fence, ...egress }
}

/** For hostd: nothing to be said where all is let out, which it does by itself. */
async function policyOf(db: Db, workspace_id: string): Promise<{ egress?: HostEgress }> {
  const [facts] = await readEgressFacts(readerOf(db), [workspace_id])
  const egress = facts === undefined ? undefined : hostEgress(effectiveOf(facts))
  return egress === undefined || egress.revision === DEFAULT_REVISION ? {} : { egress }
}

export function hostEgress({ effective, revision }: Pick<Effective, 'effective' | 'revision'>): HostEgress {
  const { mode, rules, cidrs } = effective
  return { revision, mode, rules: rules.map(({ host, ports }) => ({ host, ports })), cidrs }
}

/** The machine runs, whatever becomes of what is written of it: the next comparison writes it again. */
async function note({ db, clock, log, book }: Enforcing, machine: Machine): Promise<void> {
  const said = saidOf(machine)
  if (said === null) return
  book.put(said)
  await acknowledge(db, said, clock.now()).catch((error: unknown) => {
    log.warn({ workspace_id: said.workspace_id, err: error }, 'that a policy is in force is not written yet')
  })
}
