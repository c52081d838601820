import type { Route } from '../../contract/route.ts'
import type { Bound, Handler } from '../../service/http/call.ts'

/** Binds one handler to its route, for servers of tests with few routes. */
export function bind<R extends Route, Deps, Ticket = unknown>(route: R, handler: Handler<R, Deps, Ticket>): Bound<Deps, Ticket> {
  return { route, handler: handler as unknown as Handler<Route, Deps, Ticket> }
}
