import { isOnMachines } from './files.ts'

/**
 * `computes`: needs a processor, and nothing that set-up builds. `machines`: mostly a processor. `waits`: mostly time. `alone`: the whole
 * computer. `last`: the end of all others.
 */
export type Kind = 'computes' | 'machines' | 'waits' | 'alone' | 'last'

/** A lane takes files of its first kind that has one left. */
export interface Lane {
  name: string
  takes: Kind[]
}

/** The first match counts. */
const KINDS: { files: RegExp; kind: Kind; because: string }[] = [
  { files: /^tests\/acceptance\/residency/, kind: 'waits', because: 'machines that nobody uses stand still after a while' },
  { files: /^tests\/acceptance\/hibernation/, kind: 'waits', because: 'memory is saved after a while' },
  { files: /^tests\/acceptance\/idle/, kind: 'waits', because: 'the least idle timeout is a minute' },
  { files: /^tests\/acceptance\/.*failpoints/, kind: 'waits', because: 'it waits until what it killed serves again' },
  { files: /^tests\/acceptance\/(backup|full-pool)/, kind: 'waits', because: 'it waits for idle times and for processes that start again' },
  { files: /^tools\/checks\/go-hostd/, kind: 'waits', because: 'its sandboxes start and end, and half of the time no processor works' },
  { files: /^tests\/acceptance\/deaths/, kind: 'alone', because: 'a death is seen within seconds that a busy computer does not keep' },
  { files: /^tests\/acceptance\/hostile-guest/, kind: 'alone', because: 'its guests take all that the computer gives them' },
  { files: /^tools\/checks\/go-machines/, kind: 'machines', because: 'its Go packages need networks and control groups, or measure' },
  { files: /^tests\/ledger\/ledger/, kind: 'last', because: 'it judges what all others have observed' },
]

/** The longest files come first, so that none is left when the other lanes are done. */
const FIRST = [
  /^tools\/checks\/go-hostd/,
  /^tools\/checks\/go-machines/,
  /^tests\/acceptance\/.*failpoints/,
  /^tests\/acceptance\/(browser|upgrade)/,
]

/** For two processors. Files that wait need little of either. */
const LANES: Lane[] = [
  { name: 'machines', takes: ['machines', 'computes'] },
  { name: 'computing', takes: ['computes', 'machines'] },
  { name: 'waiting', takes: ['waits', 'computes', 'machines'] },
]
const PROCESSORS_PER_LANES = 2
/** Larger computers repeat the lanes as often as memory allows. */
const TIMES_MAX = 3
/** Lane for one processor, also to find out whether files disturb each other. */
const ONE_LANE: Lane[] = [{ name: 'only', takes: ['computes', 'machines', 'waits'] }]
const ONE_LANE_VARIABLE = 'BERTH_TEST_ONE_LANE'

export function lanesFor(processors: number, one_lane = process.env[ONE_LANE_VARIABLE] === '1'): Lane[] {
  const times = Math.min(TIMES_MAX, Math.floor(processors / PROCESSORS_PER_LANES))
  if (one_lane || times === 0) return ONE_LANE
  return Array.from({ length: times }, (_, at) =>
    LANES.map(({ name, takes }) => ({ name: at === 0 ? name : `${name} ${at + 1}`, takes })),
  ).flat()
}

export function kindOf(file: string): Kind {
  return KINDS.find(({ files }) => files.test(file))?.kind ?? (isOnMachines(file) ? 'machines' : 'computes')
}

export function takeFor(lane: Lane, waiting: string[]): string | undefined {
  for (const kind of lane.takes) {
    const at = waiting.findIndex((file) => kindOf(file) === kind)
    if (at >= 0) return waiting.splice(at, 1)[0]
  }
  return undefined
}

export function inOrder(files: readonly string[]): string[] {
  const rank = (file: string) => {
    const at = FIRST.findIndex((long) => long.test(file))
    return at < 0 ? FIRST.length : at
  }
  return files.toSorted((a, b) => rank(a) - rank(b))
}

/** Each must match an existing file, or is out of date. */
export const NAMED_FILES = [...KINDS.map(({ files }) => files), ...FIRST]
