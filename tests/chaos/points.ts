import { FAILPOINTS, type FailpointName } from '../../service/lib/failpoints.ts'

/** A hibernation has no request: it happens when there are no requests. */
export type Kind =
  | 'open'
  | 'suspend'
  | 'resume'
  | 'snapshot'
  | 'restore'
  | 'adopt'
  | 'reset'
  | 'fork'
  | 'fork_suspended'
  | 'delete'
  | Parking
export type Parking = 'hibernate' | 'wake'
export type Owner = 'api' | 'cell' | 'hostd'

export interface Point {
  /** hostd's names have no prefix. */
  name: string
  owner: Owner
  kind: Kind
}

export const MODES = ['kill', 'kill_all', 'stop', 'throw'] as const
export type Mode = (typeof MODES)[number]

/** The first matching prefix counts. */
const HOSTD_KINDS: [prefix: string, kinds: Kind[]][] = [
  ['start.', ['open']],
  ['connect.', ['open', 'wake']],
  ['checkpoint.resume', ['snapshot']],
  ['checkpoint.', ['suspend', 'hibernate']],
  ['restore.', ['resume', 'wake']],
  ['clone.', ['fork_suspended']],
  ['stop.', ['suspend', 'hibernate']],
  ['delete.', ['delete']],
  ['fence.', ['delete']],
  ['fit.', []], // no request triggers this step: machine/internal/hostd tests it
  ['layer_make.', []], // the result depends only on a disk: machine/internal/hostd tests it
  ['layer_drop.', []], // no operation triggers this step: machine/internal/hostd tests it
  ['volume', []], // tests/acceptance/volume-failpoints.test.ts
  ['tree_apply.', []], // tests/acceptance/execution-failpoints.test.ts
  ['unpause.', []], // only after an undone suspend: machine/internal/hostd tests it
]

/** Listed in machine/internal/hostd/failpoint.go. */
export const VOLUME_POINTS = [
  'volume_create.storage',
  'volume_create.answer',
  'volume_delete.detach',
  'volume_delete.storage',
  'volume_delete.answer',
  'volumes.mount',
  'volumes.guest',
  'volumes.commit',
] as const

export function everyPoint(hostd_names: string[]): Point[] {
  // These points are omitted, because other tests reach them: changes (tests/api/audit.test.ts), trees
  // (service/cell/filetree/trees/trees.test.ts), start-ups (service/cell/operations/startup.test.ts), template builds
  // (tests/api/template-builds.test.ts), warm machines (service/cell/operations/warm/warm.test.ts), collected layers
  // (tests/api/template-layers.test.ts), states of drafts (service/cell/operations/failpoints.test.ts), exports
  // (tests/api/exports.test.ts), mails (tests/api/mail.test.ts), payments (tests/api/payment-invoices.test.ts, payment-killed.test.ts),
  // volumes and executions (tests/acceptance/volume-failpoints.test.ts, execution-failpoints.test.ts).
  const names = (Object.keys(FAILPOINTS) as FailpointName[]).filter(
    (name) =>
      !/^(change\.|tree\.|startup\.|template_build\.|warm\.|draft_state\.|layer_collect\.|export\.|mail\.|payment\.|volume_|execution\.)/.test(
        name,
      ),
  )
  const own = names.map((name): Point => {
    const [kind] = name.split('.') as [Kind]
    return { name, owner: FAILPOINTS[name].owner, kind }
  })
  const hostd = hostd_names.flatMap((name): Point[] => {
    const found = HOSTD_KINDS.find(([prefix]) => name.startsWith(prefix))
    if (found === undefined) throw new Error(`No operation is known that comes past hostd/${name}: add it to HOSTD_KINDS`)
    return found[1].map((kind) => ({ name, owner: 'hostd', kind }))
  })
  return [...own, ...hostd]
}

/** hostd's names do not include the operation. */
export function labelOf({ name, owner, kind }: Point): string {
  return owner === 'hostd' ? `hostd/${name}/${kind}` : name
}

export function isParking(kind: Kind): kind is Parking {
  return kind === 'hibernate' || kind === 'wake'
}
