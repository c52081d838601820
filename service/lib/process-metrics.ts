import { Counter, Gauge, type Registry } from 'prom-client'
import type { DiskReserve } from './disk-reserve.ts'
import type { ProcessLog } from './log.ts'

export function processMetrics(registry: Registry, reserve: DiskReserve, log: Pick<ProcessLog, 'dropped'>): void {
  const reserved = new Gauge({
    name: 'berth_data_reserve_bytes',
    help: 'Bytes of the file system of data_dir that stay free: below them, calls that would fill it are refused',
    registers: [registry],
  })
  new Gauge({
    name: 'berth_data_free_bytes',
    help: 'Free bytes of the file system of data_dir, the reserve included',
    registers: [registry],
    async collect() {
      this.reset()
      const state = await reserve.look().catch(() => null) // without a reading no value is set, so the series is absent
      if (state === null || !Number.isFinite(state.free_bytes)) return
      this.set(state.free_bytes)
      reserved.set(state.reserve_bytes)
    },
  })
  counted(registry, 'berth_data_refusals_total', 'Writes that were refused, because the disk of data_dir is nearly full', () =>
    reserve.refused(),
  )
  counted(registry, 'berth_log_lines_dropped_total', 'Lines of the log that could not be written', () => log.dropped())
}

function counted(registry: Registry, name: string, help: string, value: () => number): void {
  new Counter({
    name,
    help,
    registers: [registry],
    collect() {
      this.reset()
      this.inc(value())
    },
  })
}
