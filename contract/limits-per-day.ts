/** Berth's own: what one organization makes in a day; more answer 429. What is deleted, revoked or over leaves a row. */
export const PER_DAY = {
  workspaces: 100_000,
  secret_values: 5000, // creates and rotations
  api_keys: 2000,
  invitations: 1000,
  port_credentials: 200_000,
  template_builds: 5000,
} as const
