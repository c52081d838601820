/** Names the folder into which every test process writes what it observed. */
export const OBSERVED_VARIABLE = 'BERTH_TEST_OBSERVED'
/** Set when nothing of the suite was left out: only then can the ledger be complete. */
export const WHOLE_VARIABLE = 'BERTH_TEST_WHOLE'

/** One answer as a client saw it. */
export interface Exchange {
  method: string
  /** With its query. */
  path: string
  status: number
  content_type: string
  /** The body of a refusal, the end of a stream of events, a message of a WebSocket; else ''. */
  text: string
}

export function streamsEvents(content_type: string): boolean {
  return /^(application\/x-ndjson|text\/event-stream|websocket)/.test(content_type)
}
