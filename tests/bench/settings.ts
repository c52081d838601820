export const BENCH_SETTINGS = { pool_image_gib: 16, slots: 2, shells: 2 }
export const CROWDED_SETTINGS = { slot_memory_mib: 512, memory_overcommit: 3, overcommit: 100, disk_overcommit: 1000 }
export const SMALL_CAPS = { caps: { memory_mib: 512, disk_gib: 1 } }
