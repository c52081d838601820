export interface Event {
  type: string
  stream?: string
  offset?: number
  data?: string
  error?: { code: string; message: string; request_id: string; retryable: boolean; details?: Record<string, unknown> }
  [field: string]: unknown
}

export const eventsOf = (text: string): Event[] =>
  text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Event)
export const bytesOf = (events: Event[], stream: string) =>
  Buffer.concat(events.filter((event) => event.stream === stream).map((event) => Buffer.from(event.data ?? '', 'base64')))

export async function* following(response: Response): AsyncGenerator<Event> {
  let text = ''
  const decoder = new TextDecoder()
  for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
    text += decoder.decode(chunk, { stream: true })
    const lines = text.split('\n')
    text = lines.pop() ?? ''
    for (const line of lines) yield JSON.parse(line) as Event
  }
}
export const next = async (events: AsyncGenerator<Event>) => (await events.next()).value as Event
