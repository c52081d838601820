interface HostErrorKind {
  /** HTTP status of hostd's answer. */
  status: number
  /** Whether the same call may succeed later. */
  retryable: boolean
}

/** Codes with which hostd refuses. no_space: the pool is full. disk_full: the workspace has reached its own limit. */
export const HOST_ERRORS = {
  bad_request: { status: 400, retryable: false },
  not_found: { status: 404, retryable: false },
  fenced: { status: 409, retryable: false },
  not_running: { status: 409, retryable: false },
  already_running: { status: 409, retryable: false },
  wrong_installation: { status: 409, retryable: false },
  tree_stale: { status: 409, retryable: false }, // details.digest: the tree of the copy, or '' without a copy
  volume_busy: { status: 409, retryable: true }, // a process in the machine uses the volume
  mount_refused: { status: 422, retryable: false }, // the volume cannot be mounted at that path of the machine: details.why
  no_space: { status: 507, retryable: true },
  disk_full: { status: 507, retryable: false },
  checkpoint_failed: { status: 500, retryable: true },
  checkpoint_corrupt: { status: 422, retryable: false },
  checkpoint_incompatible: { status: 422, retryable: false },
  layer_missing: { status: 404, retryable: false },
  layer_refused: { status: 422, retryable: false }, // details.why: LAYER_REFUSALS
  invalid_resources: { status: 422, retryable: false },
  no_capacity: { status: 503, retryable: true },
  start_failed: { status: 500, retryable: true },
  restore_failed: { status: 500, retryable: true },
  internal: { status: 500, retryable: true },
} as const satisfies Record<string, HostErrorKind>
export type HostErrorCode = keyof typeof HOST_ERRORS
