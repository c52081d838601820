import type { DiskReadRequest as SentRequest } from '../../../contract/internal/host-disks.ts'

export interface DiskReadRequest extends Omit<SentRequest, 'checkpoint_id' | 'layers'> {
  /** null: the workspace would start blank, from its template's layers. */
  checkpoint_id: string | null
  layers: readonly string[]
}
