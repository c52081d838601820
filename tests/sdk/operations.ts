import { APP_ROUTES } from '../../contract/routes/app/all.ts'
import { CELL_ROUTES } from '../../contract/routes/cell/all.ts'
import { pathsOf } from '../../contract/route.ts'

interface Operation {
  id: string
  method: string
  segments: string[]
}

const OPERATIONS: Operation[] = [...APP_ROUTES, ...CELL_ROUTES].flatMap((route) =>
  pathsOf(route).map(({ name, path }) => ({
    id: `${route.surface === 'cell' ? 'cell.' : ''}${name}`,
    method: route.method,
    segments: path.split('/'),
  })),
)

export const OPERATION_IDS = OPERATIONS.map(({ id }) => id)

/** If two paths match, the one with fewer parameters counts. */
export function operationOf(method: string, path: string): string | undefined {
  const asked = path.split('/')
  const fits = ({ segments, ...one }: Operation) =>
    one.method === method && segments.length === asked.length && segments.every((each, at) => isParameter(each) || each === asked[at])
  const parameters = ({ segments }: Operation) => segments.filter(isParameter).length
  return OPERATIONS.filter(fits).toSorted((a, b) => parameters(a) - parameters(b))[0]?.id
}

function isParameter(segment: string): boolean {
  return segment.startsWith('{')
}

export function noting(seen: Set<string>): { fetch: typeof fetch; WebSocket: typeof WebSocket } {
  const note = (method: string, url: string | URL) =>
    void seen.add(operationOf(method, new URL(url).pathname) ?? `${method} ${String(url)}`)
  return {
    fetch(input, init) {
      note(init?.method ?? 'GET', input as string)
      return fetch(input, init)
    },
    WebSocket: class extends WebSocket {
      constructor(url: string | URL, protocols?: ConstructorParameters<typeof WebSocket>[1]) {
        note('GET', url)
        super(url, protocols)
      }
    },
  }
}
