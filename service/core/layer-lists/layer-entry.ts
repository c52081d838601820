/** What a layer has under one name: machine/internal/wire/layer.go. A whiteout says that there is nothing, whatever the layers below have. */
export interface LayerEntry {
  name: string
  type: 'file' | 'directory' | 'symlink' | 'whiteout' | 'other'
  size_bytes: number
  mode: number
  uid: number
  gid: number
  sha256?: string
  target?: string
  /** What the layers below have in this directory is not seen. */
  opaque?: boolean
  /** The layers below have this directory under another name, or path. */
  redirect?: string
}
