import type { Surface } from '../../contract/errors.ts'
import { pathsOf, patternOf, type Route } from '../../contract/route.ts'

/** @returns the methods of the routes at a path (a query is ignored); empty if no route has the path. */
export function methodsOf(routes: readonly Route[], surface: Surface): (url: string) => string[] {
  const taken = routes.flatMap((route) =>
    pathsOf(route).map(({ path }) => ({ pattern: patternOf(path), methods: methodsAt(route, surface) })),
  )
  return (url) => {
    const path = url.split('?', 1)[0] ?? ''
    return [...new Set(taken.filter(({ pattern }) => pattern.test(path)).flatMap(({ methods }) => methods))].sort()
  }
}

/** The gateway has no HEAD, because its reads wake machines and stream. */
function methodsAt({ method }: Route, surface: Surface): string[] {
  return method === 'GET' && surface === 'app' ? ['GET', 'HEAD'] : [method]
}
