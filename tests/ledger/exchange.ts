/** Names the folder into which every test process writes its observations. */
export const OBSERVED_VARIABLE = 'BERTH_TEST_OBSERVED'
/** Set for the whole suite, because only then can the ledger be complete. */
export const WHOLE_VARIABLE = 'BERTH_TEST_WHOLE'

export interface Exchange {
  method: string
  path: string
  status: number
  content_type: string
  /** A refusal's body, the end of an event stream, or a WebSocket message; else ''. */
  text: string
}

export function streamsEvents(content_type: string): boolean {
  return /^(application\/x-ndjson|text\/event-stream|websocket)/.test(content_type)
}
