/**
 * `x-service-reason` of answers that a port URL gives instead of the app (Cell, "Port access" 9). `by`: `cell` checks workspace and
 * credentials, `proxy` checks the request and the app's answer.
 */
export const PORT_REFUSALS = {
  bad_request: { status: 400, by: 'proxy', means: 'The request is not HTTP as it should be' },
  upgrade_refused: { status: 400, by: 'proxy', means: 'An upgrade that no app is given, such as h2c' },
  credential_missing: { status: 401, by: 'proxy', means: 'No port token, cookie or callback URL' },
  credential_invalid: { status: 401, by: 'cell', means: 'The credential is not for this port, or is not known' },
  credential_expired: { status: 401, by: 'cell', means: 'Its time is over' },
  credential_revoked: { status: 401, by: 'cell', means: 'It was revoked while a request or WebSocket was open' },
  origin_refused: { status: 403, by: 'proxy', means: 'A WebSocket or a write with a cookie, and not from a page of the workspace' },
  host_unknown: { status: 404, by: 'proxy', means: 'The host name is that of no port' },
  path_reserved: { status: 404, by: 'proxy', means: 'Paths below /__service/ belong to the platform' },
  port_closed: { status: 404, by: 'cell', means: 'The port was closed while a request or WebSocket was open' },
  workspace_gone: { status: 404, by: 'cell', means: 'The workspace was deleted' },
  method_not_allowed: { status: 405, by: 'proxy', means: 'CONNECT and TRACE' },
  request_timeout: { status: 408, by: 'proxy', means: 'The request came too slowly' },
  too_many_requests: { status: 429, by: 'both', means: 'More at once than is served' },
  header_too_large: { status: 431, by: 'proxy', means: 'The head of the request is too large' },
  app_unreachable: { status: 502, by: 'proxy', means: 'The app broke the connection off' },
  app_listens_elsewhere: {
    status: 502,
    by: 'proxy',
    means: 'The app listens on loopback only, or on another address that no visitor reaches',
  },
  app_bad_answer: { status: 502, by: 'proxy', means: 'What the app answered is not HTTP' },
  allowance_exhausted: { status: 503, by: 'cell', means: 'The workspace sleeps, and the allowance of its organization is used up' },
  entitlement_required: { status: 503, by: 'cell', means: 'The workspace sleeps, and the plan of its organization refuses starts' },
  quota_exceeded: { status: 503, by: 'cell', means: 'The workspace sleeps, and the plan allows no more workspaces to run' },
  workspace_failed: { status: 503, by: 'cell', means: 'The workspace has failed, or is being stopped: open it again' },
  resume_failed: { status: 503, by: 'cell', means: 'The workspace could not be resumed' },
  wake_failed: { status: 503, by: 'cell', means: 'The workspace could not be woken; it is as it was' },
  host_capacity: { status: 503, by: 'cell', means: 'There is no room for it now' },
  machine_moved: { status: 503, by: 'cell', means: 'The machine ended, or was suspended, while a request or WebSocket was open' },
  unavailable: { status: 503, by: 'both', means: 'The service cannot decide at this moment' },
  app_not_listening: { status: 504, by: 'proxy', means: 'Nothing listens on the port, within 30 seconds' },
  app_timeout: { status: 504, by: 'proxy', means: 'The app did not answer in time' },
  starting_timeout: { status: 504, by: 'cell', means: 'The workspace was not running within 30 seconds' },
} as const satisfies Record<string, { status: number; by: 'cell' | 'proxy' | 'both'; means: string }>
export type PortRefusal = keyof typeof PORT_REFUSALS
