import { APP_ROUTES, type AppRoutes } from '../../contract/routes/app/all.ts'
import { bindAll, type Bound, type Call, type HandlersOf, type Reply } from '../http/call.ts'
import { ACCESS_HANDLERS } from './access/handlers.ts'
import { LIFECYCLE_HANDLERS } from './lifecycle/handlers.ts'
import { MONEY_HANDLERS } from './money/handlers.ts'
import { RECORDS_HANDLERS } from './records/handlers.ts'
import { TEMPLATES_ANSWERS, TEMPLATES_HANDLERS } from './templates/handlers.ts'
import { WORKSPACES_ANSWERS, WORKSPACES_HANDLERS } from './workspaces/handlers.ts'
import type { Changed } from './calls/idempotency/change.ts'
import type { WaitPermit } from './calls/held-places.ts'
import type { ApiDeps } from './deps.ts'

const HANDLERS: HandlersOf<AppRoutes, ApiDeps, WaitPermit> = {
  ...ACCESS_HANDLERS,
  ...LIFECYCLE_HANDLERS,
  ...MONEY_HANDLERS,
  ...RECORDS_HANDLERS,
  ...TEMPLATES_HANDLERS,
  ...WORKSPACES_HANDLERS,
  'openapi.get': async (_call, deps) => ({
    status: 200,
    body: deps.openapi(),
    headers: { 'content-type': 'application/json; charset=utf-8', 'cache-control': 'public, max-age=300' },
  }),
}

export const API_ROUTES: readonly Bound<ApiDeps, WaitPermit>[] = bindAll(APP_ROUTES, HANDLERS)

type Answers = { readonly [Id in keyof AppRoutes]?: (call: Call<AppRoutes[Id]>, deps: ApiDeps, outcome: Changed) => Promise<Reply> }

export const ANSWERS: Answers = {
  ...TEMPLATES_ANSWERS,
  ...WORKSPACES_ANSWERS,
}
