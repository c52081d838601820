/** Berth's own bounds of what many callers have together in one process: each has a share. */
export const SHARE_LIMITS = {
  // Lines about refusals in the log, of a few hundred bytes each. The log holds 16 MiB.
  log: { path_characters_max: 300, strangers_per_minute: 120, source_per_minute: 30, caller_per_minute: 600, errors_per_minute: 60 },
  // Searches of file-first workspaces. The time in line counts as time of the search.
  tree_search: {
    at_once_max: 2,
    at_once_per_organization_max: 1,
    waiting_max: 128,
    waiting_per_organization_max: 32,
    per_workspace_max: 8, // running and waiting; more answer 429
  },
  disk_read: {
    window_seconds: 600, // Berth's own: reads of one suspended workspace are counted for so long
    bytes_max: 8 * 2 ** 30, // Berth's own: of files, in that time
    busy_seconds_max: 600, // Berth's own: all its calls together, in that time
  },
} as const
