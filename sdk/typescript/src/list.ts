import type { App } from './app.ts'
import type { CallOptions } from './transport.ts'

export interface Page<T> {
  data: T[]
  next_cursor: string | null
}

/** A list of the API. Iterating reads one page after another. */
export interface List<T> extends AsyncIterable<T> {
  /** Reads one page: the first, or the one at a cursor. */
  page(cursor?: string): Promise<Page<T>>
  all(): Promise<T[]>
}

/** @param path a function where a request must first find the project or organization. */
export function listOf<T>(
  app: Pick<App, 'call'>,
  path: string | (() => Promise<string>),
  query: object = {},
  options?: CallOptions,
): List<T> {
  const page = async (cursor?: string): Promise<Page<T>> =>
    app.call({ method: 'GET', path: typeof path === 'string' ? path : await path(), query: { ...query, cursor } }, options)
  async function* items(): AsyncGenerator<T, void> {
    let cursor: string | undefined
    do {
      const { data, next_cursor } = await page(cursor)
      yield* data
      cursor = next_cursor ?? undefined
    } while (cursor !== undefined)
  }
  return {
    page,
    [Symbol.asyncIterator]: items,
    async all() {
      const found: T[] = []
      for await (const item of items()) found.push(item)
      return found
    },
  }
}
