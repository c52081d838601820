import type { Surface } from '../../contract/errors.ts'
import { pathsOf, patternOf, type Route } from '../../contract/route.ts'

/** The methods that routes take at an address, which is a path with or without its query: none where no route has it. */
export function methodsOf(routes: readonly Route[], surface: Surface): (url: string) => string[] {
  const taken = routes.flatMap((route) =>
    pathsOf(route).map(({ path }) => ({ pattern: patternOf(path), methods: methodsAt(route, surface) })),
  )
  return (url) => {
    const path = url.split('?', 1)[0] ?? ''
    return [...new Set(taken.filter(({ pattern }) => pattern.test(path)).flatMap(({ methods }) => methods))].sort()
  }
}

/** A gateway's reads wake machines and stream: a HEAD of them has no meaning. */
function methodsAt({ method }: Route, surface: Surface): string[] {
  return method === 'GET' && surface === 'app' ? ['GET', 'HEAD'] : [method]
}
