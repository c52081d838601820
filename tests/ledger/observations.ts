import { APP_CODES, CELL_CODES, type CodeRule } from '../../contract/errors.ts'
import { pathsOf, patternOf } from '../../contract/route.ts'
import { type Exchange, streamsEvents } from './exchange.ts'
import { lineOf, ROUTES } from './lines.ts'

const PATTERNS = ROUTES.flatMap((route) => pathsOf(route).map(({ path }) => ({ route, path, pattern: patternOf(path) })))

/** @returns none for an undeclared route or another server's answer */
export function observedLines({ method, path, status, content_type, text }: Exchange): string[] {
  const pathname = path.split('?', 1)[0] ?? ''
  // /v1/workspaces/open also matches an id's pattern, so the route without parameters comes first.
  const found = PATTERNS.filter(({ route, pattern }) => route.method === method && pattern.test(pathname)).sort(
    (a, b) => a.path.split('{').length - b.path.split('{').length,
  )[0]
  if (found === undefined) return []
  const { route } = found
  if (status < 400) {
    const ended = streamsEvents(content_type) ? errorEvent(text) : null
    return [lineOf(route, status), ...(ended === null ? [] : [lineOf(route, statusOf(route.surface, ended.code, content_type), ended)])]
  }
  // A refusal before the upgrade has its own status, and is no declared answer.
  if (route.websocket !== undefined) return []
  const error = envelope(text)
  return [error === null ? lineOf(route, status) : lineOf(route, status, error)]
}

interface Told {
  code: string
  reason: string | null
}

/** In a stream, the status is the code's usual one, or a WebSocket's close code. */
function statusOf(surface: 'app' | 'cell', code: string, content_type: string): number {
  const codes: Partial<Record<string, CodeRule>> = surface === 'app' ? APP_CODES : CELL_CODES
  return (codes[code]?.status ?? 0) + (content_type === 'websocket' ? 4000 : 0)
}

function errorEvent(text: string): Told | null {
  const lines = text.split('\n').filter((line) => line.includes('"type":"error"'))
  const last = lines.at(-1)
  return last === undefined ? null : envelope(last.slice(last.indexOf('{')))
}

function envelope(text: string): Told | null {
  try {
    const { error } = JSON.parse(text) as { error: { code: string; details?: { reason?: string } } }
    return { code: error.code, reason: error.details?.reason ?? null }
  } catch {
    return null // HEAD has no body, and a cut body is no envelope
  }
}
