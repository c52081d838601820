import type { TemplateFile } from '../../../../contract/schemas/template-files.ts'
import type { LayerEntry } from '../../../../contract/internal/host-layers.ts'

export function fileView(path: string, { name: _, type, size_bytes, mode, uid, gid, sha256, target }: LayerEntry): TemplateFile {
  return {
    path,
    name: path.slice(path.lastIndexOf('/') + 1),
    type: type === 'whiteout' ? 'other' : type,
    size_bytes,
    mode: mode.toString(8).padStart(4, '0'),
    uid,
    gid,
    sha256: sha256 ?? null,
    target: target ?? null,
  }
}
