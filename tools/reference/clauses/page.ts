import { APP_ROUTES } from '../../../contract/routes/app/all.ts'
import { CELL_ROUTES } from '../../../contract/routes/cell/all.ts'
import { APP_CLAUSES } from './app.ts'
import { CELL_CLAUSES } from './cell.ts'
import type { Clause } from './clause.ts'

const ROUTES = new Map([...APP_ROUTES, ...CELL_ROUTES].map((route) => [route.id, `${route.method} ${route.path}`] as const))

export function clausesPage(): string {
  return (
    [
      '# Clauses',
      'Berth keeps a contract of two documents: *App*, the Application API, and *Cell*, the gateway, file-first workspaces and ports. Where code rests on a clause of it, it names the clause: `App, "Open rules" 3`. ' +
        'Here is what each of them asks, in our own words, with the routes where callers meet it and the tests that hold Berth to it.',
      '## App',
      ...APP_CLAUSES.map(clauseText),
      '## Cell',
      ...CELL_CLAUSES.map(clauseText),
    ].join('\n\n') + '\n'
  )
}

function clauseText({ name, says, routes = [], tests }: Clause): string {
  const rules = typeof says === 'string' ? says : says.map((rule, at) => `${at + 1}. ${rule}`).join('\n')
  const met = routes.length === 0 ? [] : [`Met at ${routes.map((id) => `\`${ROUTES.get(id) ?? unknown(id)}\``).join(', ')}.`]
  return [`### ${name}`, rules, ...met, `Tested in ${tests.map((file) => `\`${file}\``).join(', ')}.`].join('\n\n')
}

function unknown(id: string): never {
  throw new Error(`a clause names the route ${id}, which there is not`)
}
