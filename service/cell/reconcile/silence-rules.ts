export interface Silence {
  looks: number
  /** Latest probes in a row without processor use. */
  still: number
  /** Number of probes in which the agent could have run. */
  unhindered: number
  cpu_usec: number
  looked_ms: number
}

export interface SilentLook {
  cpu_usec: number
  looked_ms: number
  cpu_millis: number | null
  /** Idle share of the computer's processors since the last probe. */
  spare_share: number
}

/** A hanging machine is found after this many probes: within 7 s, including the second that each query waits. */
const SILENT_LOOKS = 3
/** A busy guest gets more probes, because it may only be slow to answer, for example during a fork bomb. */
const SILENT_LOOKS_BUSY = 30
const STILL_CPU_USEC = 5000
/** Below this share of its limit, a guest does not prevent its agent from running. */
const OWN_SHARE_MAX = 0.5
/** With this share of the computer idle, other guests do not prevent the agent either. */
const SPARE_SHARE_MIN = 0.25

/** Counts an unanswered probe. Use before the first probe is unknown, and is ignored. */
export function nextSilence(last: Silence | undefined, { cpu_usec, looked_ms, cpu_millis, spare_share }: SilentLook): Silence {
  if (last === undefined) return { looks: 1, still: 1, unhindered: 1, cpu_usec, looked_ms }
  const used_usec = cpu_usec - last.cpu_usec
  // Units: a thousandth of a processor for a millisecond is a microsecond.
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
