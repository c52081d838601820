import { LIMITS } from '../../../contract/limits.ts'
import { SCRUBBED } from '../../../contract/scrubbed.ts'
import type { LayerRequest } from '../links/hostd-layers.ts'
import { workspaceSubject } from '../links/subject.ts'

/** What a captured disk of a workspace becomes: a layer above those that it lies on, or one for all where there are as many as may be. */
export interface CapturedLayer {
  request: Pick<LayerRequest, 'of' | 'whole' | 'drop' | 'bytes_max' | 'entries_max'>
  /** With its digest, the layers of whatever begins with what was captured. */
  layersWith(digest: string): string[]
}

export function capturedLayer(of: { workspace_id: string; checkpoint_id: string; layers: readonly string[] }): CapturedLayer {
  const { layer_bytes_max: bytes_max, layer_entries_max: entries_max, layers_max } = LIMITS.template_build
  const whole = of.layers.length >= layers_max
  const disk = { subject: workspaceSubject(of.workspace_id), checkpoint_id: of.checkpoint_id }
  return {
    request: { of: disk, whole, drop: SCRUBBED, bytes_max, entries_max },
    layersWith: (digest) => (whole ? [digest] : [...of.layers, digest]),
  }
}
