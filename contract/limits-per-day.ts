/** Berth's own, per organization. They bound rows, because a deleted, revoked or expired object keeps its row. */
export const PER_DAY = {
  workspaces: 100_000,
  secret_values: 5000, // creates and rotations
  api_keys: 2000,
  invitations: 1000,
  port_credentials: 200_000,
  template_builds: 5000,
} as const
