// The TypeScript side of machine/internal/wire/disk.go: the same words, spelled the same.

export interface DiskReadRequest {
  workspace_id: string
  /** Whose workspaces share readers: its organization. Absent: the workspace alone. */
  tenant?: string
  /** null: the workspace would start blank, and is its template's layers. */
  checkpoint_id: string | null
  layers: readonly string[]
  /** Of the machine that runs on the disk, which is read whatever else is said; absent: the workspace sleeps. */
  machine_epoch?: number
  /** Of a reader that did not answer: the host looks whether it does before it hands it out again. */
  doubted_address?: string
}

/** Asked like an agent. */
export interface DiskReader {
  /** Path of a unix socket. */
  address: string
  agent_key: string
  epoch: number
}
