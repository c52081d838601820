import { ROLES, type Access, type PrincipalAccess } from '../../contract/access.ts'
import type { AppRoute } from '../../contract/route.ts'
import { code, table } from './schema-text.ts'

/** `tests/generated/access.test.ts` tests the same table. */
export function accessPage(routes: readonly AppRoute[]): string {
  const rows = routes.map(({ method, path, access }) => [code(`${method} ${path}`), ...cellsOf(access)])
  const page = [
    '# Who may call what',
    'Roles are those of a person in the organization of what the call names. *with password* asks for one that was given within the last 10 minutes (`step_up_required`). Where a route names nothing but its caller, a person needs no role. A key without tools permits none.',
    'Whoever has no role in the organization is answered 404, as if it were not there; a role that may not call is 403.',
    table(['Route', ...ROLES, 'API key', 'key without tools', 'nobody'], rows),
  ]
  return `${page.join('\n\n')}\n`
}

function cellsOf(access: Access): string[] {
  if (access.kind === 'anyone') return [...ROLES.map(() => 'yes'), 'yes', 'yes', 'yes']
  if (access.kind === 'tool_token') throw new Error('no route of the application API takes a tool token')
  const yes = access.step_up === true ? 'with password' : 'yes'
  return [...ROLES.map((role) => (access.roles.includes(role) ? yes : 'no')), ...keysOf(access), 'no']
}

function keysOf({ keys }: PrincipalAccess): [string, string] {
  if (keys === 'any') return ['yes', 'yes']
  return keys === 'with_tool' ? ['yes', 'no'] : ['no', 'no']
}
