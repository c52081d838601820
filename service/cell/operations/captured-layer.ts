import { LIMITS } from '../../../contract/limits.ts'
import { EXCLUDED_FROM_TEMPLATES } from '../../../contract/scrubbed.ts'
import type { LayerRequest } from '../../../contract/internal/host-layers.ts'
import { workspaceSubject } from '../host/subject.ts'

/** A layer made from a captured disk. At the maximum of layers, it replaces all layers below by one flat layer. */
export interface CapturedLayer {
  request: Pick<LayerRequest, 'of' | 'whole' | 'drop' | 'bytes_max' | 'entries_max'>
  layersWith(digest: string): string[]
}

export function capturedLayer(of: { workspace_id: string; checkpoint_id: string; layers: readonly string[] }): CapturedLayer {
  const { layer_bytes_max: bytes_max, layer_entries_max: entries_max, layers_max } = LIMITS.template_build
  const whole = of.layers.length >= layers_max
  const disk = { subject: workspaceSubject(of.workspace_id), checkpoint_id: of.checkpoint_id }
  return {
    request: { of: disk, whole, drop: [...EXCLUDED_FROM_TEMPLATES], bytes_max, entries_max },
    layersWith: (digest) => (whole ? [digest] : [...of.layers, digest]),
  }
}
