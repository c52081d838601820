import { MACHINE_STATES, type ObservedState } from '../../contract/states/machine.ts'
import { isTerminal, type OperationState } from '../../contract/states/operation.ts'
import type { Service } from '../support/service.ts'
import type { History } from './history.ts'

/** A trigger writes it in the change's transaction, so polls miss none. */
export interface Change<T> {
  seq: number
  xid: string
  workspace_id: string
  was: T | null
  is: T
}

interface WorkspaceNote {
  state: ObservedState
  epoch: number
  residency: 'resident' | 'hibernated' | 'restoring'
  deleted: boolean
}

interface OperationNote {
  id: string
  kind: string
  state: OperationState
  source: string | null
  reason: string | null
}

interface CheckpointNote {
  operation_id: string
}

type MeterNote = Record<string, number | string>

export async function startRecord(service: Service): Promise<void> {
  await service.query(RECORD)
}

const RECORD = `
  create table chaos_changes (
    seq bigserial primary key, xid text not null default pg_current_xact_id()::text, what text not null, workspace_id uuid not null, was jsonb, is_ jsonb
  );
  create function chaos_note() returns trigger language plpgsql security definer as $$
  declare
    was jsonb; is_ jsonb;
  begin
    if tg_op = 'UPDATE' then execute format('select %s', tg_argv[1]) using old into was; end if;
    execute format('select %s', tg_argv[1]) using new into is_;
    if was is distinct from is_ then
      insert into chaos_changes (what, workspace_id, was, is_) values (tg_argv[0], (is_ ->> 'workspace_id')::uuid, was, is_);
    end if;
    return null;
  end $$;
  create trigger chaos after insert or update on workspaces for each row execute function chaos_note('workspace',
    'jsonb_build_object(''workspace_id'', $1.id, ''state'', $1.observed_state, ''epoch'', $1.ownership_epoch, ''residency'', $1.residency,
      ''deleted'', $1.deleted_at is not null)');
  create trigger chaos after insert or update on operations for each row execute function chaos_note('operation',
    'jsonb_build_object(''workspace_id'', $1.workspace_id, ''id'', $1.id, ''kind'', $1.kind, ''state'', $1.state, ''source'', $1.source_workspace_id,
      ''reason'', $1.input ->> ''reason'')');
  create trigger chaos after insert or update on checkpoints for each row execute function chaos_note('checkpoint',
    'jsonb_build_object(''workspace_id'', $1.workspace_id, ''operation_id'', $1.operation_id)');
  create trigger chaos after insert or update on usage_samples for each row execute function chaos_note('usage',
    'jsonb_build_object(''workspace_id'', $1.workspace_id, ''hour'', $1.hour, ''cpu_usec'', $1.cpu_usec, ''memory_byte_ms'', $1.memory_byte_ms,
      ''disk_byte_ms'', $1.disk_byte_ms, ''rx_bytes'', $1.rx_bytes, ''tx_bytes'', $1.tx_bytes, ''sampled_ms'', $1.sampled_ms)')`

export async function judgeRecord(service: Service, elapsed_ms: number, history: History): Promise<void> {
  const read = <T>(what: string) =>
    service.query<Change<T>>(
      `select seq::integer, xid, workspace_id, was, is_ as is from chaos_changes where what = '${what}' order by seq`,
    )
  judgeChanges(
    {
      workspaces: await read<WorkspaceNote>('workspace'),
      operations: await read<OperationNote>('operation'),
      checkpoints: await read<CheckpointNote>('checkpoint'),
      meters: await read<MeterNote>('usage'),
    },
    elapsed_ms,
    history,
  )
}

export interface Recorded {
  workspaces: Change<WorkspaceNote>[]
  operations: Change<OperationNote>[]
  checkpoints: Change<CheckpointNote>[]
  meters: Change<MeterNote>[]
}

export function judgeChanges({ workspaces, operations, checkpoints, meters }: Recorded, elapsed_ms: number, history: History): void {
  judgeWorkspaces(workspaces, history)
  judgeOperations(operations, history)
  judgeEffects(operations, workspaces, checkpoints, history)
  judgeMeters(meters, elapsed_ms, history)
}

const EDGES = new Set(
  Object.values(MACHINE_STATES).flatMap((row) =>
    Object.entries(row)
      .filter(([, to]) => to !== null)
      .map(([from, to]) => `${from} ${to}`),
  ),
)
/** Parking keeps the workspace running in its epoch; an operation's commit makes it resident again. */
const PARKING_EDGES = new Set(['resident hibernated', 'hibernated restoring', 'restoring resident', 'restoring hibernated'])
const BEGINNINGS = new Set<ObservedState>(['creating', 'forking'])
const STARTS = new Set<ObservedState>(['starting', 'resuming', 'forking'])

function judgeWorkspaces(changes: Change<WorkspaceNote>[], history: History): void {
  const ran_in = new Map<string, number>()
  for (const { workspace_id, was, is } of changes) {
    const wrong = (what: string) => history.violate(what, { workspace_id, was, is })
    history.count('changes_of_workspaces')
    if (was === null) {
      if (!BEGINNINGS.has(is.state)) wrong('I4: a workspace began in the middle of its life')
      continue
    }
    if (is.state !== was.state && !EDGES.has(`${was.state} ${is.state}`)) wrong('I4: no event of the table leads there')
    if (is.epoch < was.epoch) wrong('I3: an epoch went back')
    if (was.deleted && !is.deleted) wrong('N7: a deleted workspace came back')
    if (is.state === 'suspended' && was.state === 'suspending' && is.epoch !== was.epoch + 1) wrong('I3: a suspend is not its own epoch')
    if (is.residency !== was.residency) {
      const parked = is.state === was.state && is.epoch === was.epoch
      if (parked && !(is.state === 'running' && PARKING_EDGES.has(`${was.residency} ${is.residency}`))) wrong('I4: no move leads there')
      if (!parked && is.residency !== 'resident') wrong('I4: parking changed a state or an epoch')
    }
    if (is.state === 'running' && STARTS.has(was.state)) {
      if (is.epoch <= (ran_in.get(workspace_id) ?? 0)) wrong('I3: it runs again in an epoch of before')
      ran_in.set(workspace_id, is.epoch)
    }
  }
}

function judgeOperations(changes: Change<OperationNote>[], history: History): void {
  const made = new Map<string, number>()
  for (const { workspace_id, was, is } of changes) {
    history.count('changes_of_operations')
    const asked_as = ASKED_AS[is.kind] ?? is.kind
    if (was === null && is.reason === null) made.set(asked_as, (made.get(asked_as) ?? 0) + 1)
    if (was !== null && isTerminal(was.state)) history.violate('N1: an operation that was over has changed', { workspace_id, was, is })
  }
  for (const [asked_as, count] of made) {
    const asked = history.counts.get(`asked_${asked_as}`) ?? 0
    if (count > asked) history.violate('I8: there are more operations than were asked for', { asked_as, count, asked })
  }
}

const ASKED_AS: Record<string, string> = { delete: 'DELETE', resume: 'open' }

/** Checks I15. Operations not in EFFECTS have no effect that a death could not have undone by their end. */
function judgeEffects(
  operations: Change<OperationNote>[],
  workspaces: Change<WorkspaceNote>[],
  checkpoints: Change<CheckpointNote>[],
  history: History,
): void {
  const claimed = new Map<string, number>()
  const captured = new Set(checkpoints.map(({ is }) => is.operation_id))
  const changesOf = Map.groupBy(workspaces, ({ workspace_id }) => workspace_id)
  for (const { seq, xid, workspace_id, is } of operations) {
    if (!isTerminal(is.state)) {
      if (is.state === 'running' && !claimed.has(is.id)) claimed.set(is.id, seq)
      continue
    }
    const since = claimed.get(is.id)
    const mine = (changesOf.get(workspace_id) ?? []).filter(
      (one) => (since !== undefined && one.seq > since && one.seq < seq) || one.xid === xid,
    )
    const effect = EFFECTS[is.kind]?.(mine, captured.has(is.id))
    if (effect === undefined) continue
    if (is.state === 'succeeded' && !effect.done) history.violate('I15: it succeeded without its effect', { ...is, workspace_id })
    if (is.state === 'failed' && effect.done && !effect.died) history.violate('I15: it failed with its effect', { ...is, workspace_id })
    history.count('effects_judged')
  }
}

interface Effect {
  done: boolean
  /** The effect ended by itself before the operation could report it. */
  died: boolean
}

const cameTo =
  (state: ObservedState) =>
  (changes: Change<WorkspaceNote>[]): Effect => ({
    done: changes.some(
      ({ was, is }) => is.state === state && was?.state !== state && !(state === 'running' && was?.state === 'suspending'),
    ),
    died: changes.some(({ is }) => is.state === 'failed'),
  })
const roseInEpoch = (changes: Change<WorkspaceNote>[]): Effect => ({
  done: changes.some(({ was, is }) => was !== null && is.epoch > was.epoch),
  died: true, // the new content stays, and an open tries to start the workspace again
})
const EFFECTS: Record<string, (changes: Change<WorkspaceNote>[], captured: boolean) => Effect> = {
  open: cameTo('running'),
  resume: cameTo('running'),
  fork: cameTo('running'),
  suspend: cameTo('suspended'),
  delete: cameTo('deleted'),
  reset: roseInEpoch,
  restore: roseInEpoch,
  snapshot: (_, captured) => ({ done: captured, died: false }),
}

/** Checks I11, by workspace and hour: no value decreases, and no more time is counted than has passed. */
function judgeMeters(changes: Change<MeterNote>[], elapsed_ms: number, history: History): void {
  for (const { was, is } of changes) {
    history.count('changes_of_meters')
    if (Number(is['sampled_ms']) > elapsed_ms) history.violate('I11: more time was counted than has passed', { is, elapsed_ms })
    if (was === null) continue
    const back = Object.keys(is).filter((name) => Number(is[name]) < Number(was[name])) // an id and an hour are no numbers
    if (back.length > 0) history.violate('I11: a meter went back', { was, is })
  }
}
