/** Bounds of ports, of their credentials, and of what proxy and cell say to each other. */
export const PORT_LIMITS = {
  number_max: 65_535,
  per_workspace_max: 50, // Berth's own
  tokens_per_port_max: 1000, // Berth's own, as the next: those that have not expired
  links_per_port_max: 1000,
  token_seconds_min: 60,
  token_seconds_max: 86_400,
  token_seconds_default: 3600,
  link_seconds_min: 60, // Berth's own
  link_seconds_max: 604_800,
  link_seconds_default: 86_400,
  path_characters_max: 2048, // Berth's own: of a signed link
  wait_seconds_max: 30,
  expired_kept_seconds: 24 * 3600, // Berth's own: for so long a credential is told that its time is over
  leases_max: 20_000, // Berth's own: visitors of one computer at once, by credential; more answer 429
  settle_seconds_max: 5, // Berth's own: a proxy that has not ended what was cut by then is cut off itself
  unconfirmed_seconds: 30, // Berth's own: so long a proxy passes open streams on while it cannot ask
  asks_waiting_max: 6000, // Berth's own: requests that wait for their workspace
  asks_per_workspace_max: 500, // Berth's own
  looks_max: 256, // Berth's own: machines that are asked at once where their apps listen, of one proxy
  look_seconds_max: 2, // Berth's own
  addresses_max: 16, // Berth's own: on which an app is said to listen
  frame_bytes_max: 64 << 10, // Berth's own: of what proxy and cell say to each other
} as const
