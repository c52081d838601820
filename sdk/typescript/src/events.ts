import { linesOf } from './bytes.ts'
import { BerthError, ConnectionError, type Refusal } from './errors.ts'
import type { Gateway } from './gateway.ts'
import { type Deadline, endedBy } from './retry.ts'
import type { Request } from './transport.ts'

/** Last event of a stream that fails. */
export interface ErrorEvent {
  type: 'error'
  error: Omit<Refusal, 'status'>
}

/** A heartbeat comes every 15 seconds: after a longer silence the connection is taken as lost. */
const SILENCE_MS = 45_000

/** Yields the events of one answer, one per line. Throws a ConnectionError where it breaks off. */
export async function* eventsOf<Event>(gateway: Gateway, request: Request, deadline: Deadline): AsyncGenerator<Event> {
  const silence = new AbortController()
  const until = { ...deadline, signal: AbortSignal.any([deadline.signal, silence.signal]) }
  const stream = await gateway.send(request, until, ({ body }) => body)
  if (stream === null) return
  let timer = setTimeout(() => silence.abort(), SILENCE_MS)
  try {
    for await (const line of linesOf(stream)) {
      clearTimeout(timer)
      yield JSON.parse(line) as Event
      timer = setTimeout(() => silence.abort(), SILENCE_MS)
    }
  } catch (cause) {
    if (deadline.signal.aborted) throw endedBy(deadline)
    if (cause instanceof BerthError) throw cause
    throw new ConnectionError('The stream broke off', { cause })
  } finally {
    clearTimeout(timer)
  }
}
