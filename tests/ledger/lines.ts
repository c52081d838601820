import { APP_CODES, CELL_CODES, type CodeRule } from '../../contract/errors.ts'
import { errorsOf } from '../../contract/route-errors.ts'
import type { Route } from '../../contract/route.ts'
import { APP_ROUTES } from '../../contract/routes/app/all.ts'
import { CELL_ROUTES } from '../../contract/routes/cell/all.ts'

export const ROUTES: readonly Route[] = [...APP_ROUTES, ...CELL_ROUTES]

export function lineOf(route: Route, status: number, error?: { code: string; reason: string | null }): string {
  const name = `${route.surface === 'cell' ? 'cell.' : ''}${route.id}`
  if (error === undefined) return `${name} ${status}`
  return `${name} ${status} ${error.code}${error.reason === null ? '' : `/${error.reason}`}`
}

export function declaredLines(routes: readonly Route[] = ROUTES): string[] {
  return routes.flatMap((route) => [...Object.keys(route.answers).map((status) => lineOf(route, Number(status))), ...refusalLines(route)])
}

function refusalLines(route: Route): string[] {
  const codes: Partial<Record<string, CodeRule>> = route.surface === 'app' ? APP_CODES : CELL_CODES
  const added = route.websocket !== undefined ? 4000 : 0
  return Object.entries(errorsOf(route)).flatMap(([code, reasons]) =>
    reasons.map((reason) => lineOf(route, (codes[code]?.status ?? 0) + added, { code, reason })),
  )
}
