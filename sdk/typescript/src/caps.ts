import type { Caps } from './schemas.ts'

/** Merges sizes into `caps`: `memory_mib: 4096` means `caps: { memory_mib: 4096 }`. */
export function withCaps<Given extends Caps & { caps?: Caps | undefined }>(given: Given) {
  const { cpu_millis, memory_mib, disk_gib, caps, ...rest } = given
  const sizes = { cpu_millis, memory_mib, disk_gib }
  const all: Caps = { ...caps, ...Object.fromEntries(Object.entries(sizes).filter(([, value]) => value !== undefined)) }
  return { ...rest, ...(Object.keys(all).length > 0 ? { caps: all } : {}) }
}
