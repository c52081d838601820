/** A machine whose agent has not answered since it was first found silent. */
export interface Silence {
  looks: number
  /** The last of them, in which its processors stood still. */
  still: number
  /** Of them, those in which its agent could have run, had it wanted to. */
  unhindered: number
  cpu_usec: number
  looked_ms: number
}

/** One look at a machine that did not answer. */
export interface SilentLook {
  cpu_usec: number
  /** Monotonic. */
  looked_ms: number
  /** What it may use; null: not known. */
  cpu_millis: number | null
  /** Share of the computer's processors that had nothing to do since the last look. */
  spare_share: number
}

/** Together with the second that each question waits: known within 7 s. */
const SILENT_LOOKS = 3
/** A guest that works is only slow to answer, a fork bomb for one: it gets this long. */
const SILENT_LOOKS_BUSY = 30
/** What a machine that stands still cannot use between two looks. */
const STILL_CPU_USEC = 5000
/** A guest below half of what it may use does not keep its agent from running. */
const OWN_SHARE_MAX = 0.5
/** Nor does the computer, when a quarter of it has nothing to do. */
const SPARE_SHARE_MIN = 0.25

/** Pure. What a machine used before the first look is not known, and speaks for nothing. */
export function nextSilence(last: Silence | undefined, { cpu_usec, looked_ms, cpu_millis, spare_share }: SilentLook): Silence {
  if (last === undefined) return { looks: 1, still: 1, unhindered: 1, cpu_usec, looked_ms }
  const used_usec = cpu_usec - last.cpu_usec
  // A thousandth of a processor for a millisecond is a microsecond.
  const own_share = cpu_millis === null ? 1 : used_usec / ((looked_ms - last.looked_ms) * cpu_millis)
  const unhindered = own_share < OWN_SHARE_MAX && spare_share >= SPARE_SHARE_MIN
  return {
    looks: last.looks + 1,
    still: used_usec < STILL_CPU_USEC ? last.still + 1 : 0,
    unhindered: last.unhindered + (unhindered ? 1 : 0),
    cpu_usec,
    looked_ms,
  }
}

export function isHung({ looks, still, unhindered }: Silence): boolean {
  return still >= SILENT_LOOKS || unhindered >= SILENT_LOOKS || looks >= SILENT_LOOKS_BUSY
}
