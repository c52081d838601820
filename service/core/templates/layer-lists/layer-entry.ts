/** See machine/internal/wire/layer.go. */
export interface LayerEntry {
  name: string
  type: 'file' | 'directory' | 'symlink' | 'whiteout' | 'other'
  size_bytes: number
  mode: number
  uid: number
  gid: number
  sha256?: string
  target?: string
  opaque?: boolean
  redirect?: string
}
