/** Berth's own limits, which divide the resources of a process fairly. */
export const SHARE_LIMITS = {
  // Lines about refusals and errors. A line has a few hundred bytes; the log holds 16 MiB.
  log: { path_characters_max: 300, strangers_per_minute: 120, source_per_minute: 30, caller_per_minute: 600, errors_per_minute: 60 },
  // Searches in file-first workspaces. Time in the queue is part of the time limit.
  tree_search: {
    at_once_max: 2,
    at_once_per_organization_max: 1,
    waiting_max: 128,
    waiting_per_organization_max: 32,
    per_workspace_max: 8, // running and waiting; more answer 429
  },
  disk_read: {
    window_seconds: 600, // Berth's own: window over which reads of one suspended workspace are counted
    bytes_max: 8 * 2 ** 30, // Berth's own: file bytes in a window
    busy_seconds_max: 600, // Berth's own: total time of all its calls in a window
  },
} as const
