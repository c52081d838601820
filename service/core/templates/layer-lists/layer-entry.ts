/** See machine/internal/wire/layer.go. A whiteout hides the name in all layers below. */
export interface LayerEntry {
  name: string
  type: 'file' | 'directory' | 'symlink' | 'whiteout' | 'other'
  size_bytes: number
  mode: number
  uid: number
  gid: number
  sha256?: string
  target?: string
  /** Hides the content of this directory in the layers below. */
  opaque?: boolean
  /** Of this directory in the layers below, where it differs. */
  redirect?: string
}
