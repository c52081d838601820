import { Gauge, type Registry } from 'prom-client'
import type { Db } from '../../../db/database.ts'
import type { MachineHost } from '../../host/hostd.ts'
import { countUnnamed } from './store.ts'

export function layerGauges(
  registry: Registry,
  { db, cell_id, host }: { db: Db; cell_id: string; host: Pick<MachineHost, 'layers'> },
): void {
  new Gauge({
    name: 'berth_layer_bytes',
    help: 'Images of template layers on the host, and those that no row names',
    labelNames: ['which'],
    registers: [registry],
    async collect() {
      this.reset()
      const here = await host.layers().catch(() => null) // the metric berth_host_up reports an unreachable host
      if (here === null) return
      this.set(
        { which: 'all' },
        here.layers.reduce((sum, { size_bytes }) => sum + size_bytes, 0),
      )
      this.set({ which: 'unnamed' }, (await countUnnamed(db, cell_id)).bytes)
    },
  })
}
