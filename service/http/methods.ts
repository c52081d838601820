import type { Surface } from '../../contract/errors.ts'
import { pathsOf, patternOf, type Route } from '../../contract/route.ts'

/** Methods of the routes at a path (a query is ignored); empty if there is none. */
export function methodsOf(routes: readonly Route[], surface: Surface): (url: string) => string[] {
  const taken = routes.flatMap((route) =>
    pathsOf(route).map(({ path }) => ({ pattern: patternOf(path), methods: methodsAt(route, surface) })),
  )
  return (url) => {
    const path = url.split('?', 1)[0] ?? ''
    return [...new Set(taken.filter(({ pattern }) => pattern.test(path)).flatMap(({ methods }) => methods))].sort()
  }
}

/** Reads on the gateway wake machines and stream: HEAD has no meaning there. */
function methodsAt({ method }: Route, surface: Surface): string[] {
  return method === 'GET' && surface === 'app' ? ['GET', 'HEAD'] : [method]
}
