// The TypeScript side of machine/internal/wire/disk.go, with the same names.

export interface DiskReadRequest {
  workspace_id: string
  /** The organization whose workspaces share readers; absent: the workspace has its own. */
  tenant?: string
  /** null: the workspace would start blank, from its template's layers. */
  checkpoint_id: string | null
  layers: readonly string[]
  /** The machine that runs on the disk; the checkpoint and layers are then ignored. Absent: no machine runs. */
  machine_epoch?: number
  /** A reader that did not answer: the host checks it before it returns it again. */
  doubted_address?: string
}

/** Speaks the protocol of agents. */
export interface DiskReader {
  address: string
  agent_key: string
  epoch: number
}
