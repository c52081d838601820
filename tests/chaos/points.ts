import { FAILPOINTS, type FailpointName } from '../../service/lib/failpoints.ts'

/** What is asked for so that a process comes past a point. */
export type Kind = 'open' | 'suspend' | 'resume' | 'snapshot' | 'restore' | 'reset' | 'fork' | 'fork_suspended' | 'delete'
export type Owner = 'api' | 'cell' | 'hostd'

export interface Point {
  /** As it is armed; hostd's without their prefix. */
  name: string
  owner: Owner
  kind: Kind
}

export const MODES = ['kill', 'kill_all', 'stop', 'throw'] as const
export type Mode = (typeof MODES)[number]

/** hostd's points by the first words that fit. */
const HOSTD_KINDS: [prefix: string, kind: Kind | null][] = [
  ['start.', 'open'],
  ['connect.', 'open'],
  ['checkpoint.resume', 'snapshot'],
  ['checkpoint.', 'suspend'],
  ['restore.', 'resume'],
  ['clone.', 'fork_suspended'],
  ['stop.', 'suspend'],
  ['delete.', 'delete'],
  ['fence.', 'delete'],
  ['unpause.', null], // only after a suspend that is undone: machine/internal/hostd tests it
]

export function everyPoint(hostd_names: string[]): Point[] {
  // Nobody asks for these: service/cell/machines/hibernate-failpoints.test.ts comes past them.
  const asked = (Object.keys(FAILPOINTS) as FailpointName[]).filter((name) => !/^(hibernate|wake)\./.test(name))
  const own = asked.map((name): Point => {
    const [kind] = name.split('.') as [Kind]
    return { name, owner: FAILPOINTS[name].owner, kind }
  })
  const hostd = hostd_names.flatMap((name): Point[] => {
    const found = HOSTD_KINDS.find(([prefix]) => name.startsWith(prefix))
    if (found === undefined) throw new Error(`No operation is known that comes past hostd/${name}: add it to HOSTD_KINDS`)
    return found[1] === null ? [] : [{ name, owner: 'hostd', kind: found[1] }]
  })
  return [...own, ...hostd]
}
