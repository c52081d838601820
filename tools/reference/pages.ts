import { APP_ROUTES } from '../../contract/routes/app/all.ts'
import { CELL_ROUTES } from '../../contract/routes/cell/all.ts'
import { accessPage } from './access-page.ts'
import { clausesPage } from './clauses/page.ts'
import { routePage } from './route-page.ts'
import { errorsPage, limitsPage, schemasPage, statesPage } from './tables.ts'

export function pages(): Record<string, string> {
  return {
    'application-api.md': routePage(
      'Application API',
      'Served at `{base_url}`. Bodies are JSON. Tables of [errors](errors.md), [limits](limits.md), [states](states.md) and [schemas](schemas.md) stand apart.',
      APP_ROUTES,
    ),
    'gateway.md': routePage(
      'Gateway of a cell',
      "Served at a workspace's `cell_endpoint`. Tables of [errors](errors.md), [limits](limits.md), [states](states.md) and [schemas](schemas.md) stand apart.",
      CELL_ROUTES,
    ),
    'access.md': accessPage(APP_ROUTES),
    'clauses.md': clausesPage(),
    'errors.md': errorsPage(),
    'limits.md': limitsPage(),
    'states.md': statesPage(),
    'schemas.md': schemasPage([...APP_ROUTES, ...CELL_ROUTES]),
  }
}
