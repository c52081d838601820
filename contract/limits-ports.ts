export const PORT_LIMITS = {
  number_max: 65_535,
  per_workspace_max: 50, // Berth's own
  tokens_per_port_max: 1000, // Berth's own, as the next: tokens that have not expired
  links_per_port_max: 1000,
  token_seconds_min: 60,
  token_seconds_max: 86_400,
  token_seconds_default: 3600,
  link_seconds_min: 60, // Berth's own
  link_seconds_max: 604_800,
  link_seconds_default: 86_400,
  path_characters_max: 2048, // Berth's own: of a signed link
  wait_seconds_max: 30,
  expired_kept_seconds: 24 * 3600, // Berth's own: how long an expired credential is reported as expired rather than unknown
  leases_max: 20_000, // Berth's own: concurrent visitors of one host, by credential; more answer 429
  settle_seconds_max: 5, // Berth's own: a proxy that has not closed revoked streams after this time is disconnected
  unconfirmed_seconds: 30, // Berth's own: how long a proxy keeps open streams while it cannot reach the cell
  asks_waiting_max: 6000, // Berth's own: requests waiting for their workspace
  asks_per_workspace_max: 500, // Berth's own
  looks_max: 256, // Berth's own: concurrent queries of one proxy for the addresses on which apps listen
  look_seconds_max: 2, // Berth's own
  addresses_max: 16, // Berth's own: reported listen addresses of an app
  frame_bytes_max: 64 << 10, // Berth's own: of one message between proxy and cell
} as const
