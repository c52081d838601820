import { isUuid } from '../../lib/ids.ts'

/** Only processes that enforce revocations of this scope must answer. */
export type RevocationScope = 'everywhere' | `workspace:${string}` | `project:${string}`

/** A revocation finds every api process by the name of its listener connection. */
export const listenerOf = (application_name: string): string => `${application_name}-listener`

/** Asks whether all changes committed before the question are applied. The numbers of one asker increase. */
export interface RevocationQuestion {
  asker: string
  number: number
  scope: RevocationScope
}

export interface RevocationAnswer extends RevocationQuestion {
  /** `cell:<id>` or `api:<pid of its listener>`. */
  by: string
}

export function askText({ asker, number, scope }: RevocationQuestion): string {
  return `${asker} ${number} ${scope}`
}

export function answerText({ by, ...ask }: RevocationAnswer): string {
  return `${askText(ask)} ${by}`
}

export function parseAsk(text: string): RevocationQuestion | null {
  const [asker = '', number = '', scope = '', ...more] = text.split(' ')
  return more.length === 0 && isUuid(asker) && isScope(scope) && isNumber(number) ? { asker, number: Number(number), scope } : null
}

export function parseAnswer(text: string): RevocationAnswer | null {
  const at = text.lastIndexOf(' ')
  const ask = parseAsk(text.slice(0, Math.max(0, at)))
  return ask && { ...ask, by: text.slice(at + 1) }
}

export function idOf(scope: RevocationScope, kind: 'workspace' | 'project'): string | null {
  return scope.startsWith(`${kind}:`) ? scope.slice(kind.length + 1) : null
}

function isScope(text: string): text is RevocationScope {
  const [kind = '', id = ''] = text.split(':')
  return text === 'everywhere' || ((kind === 'workspace' || kind === 'project') && isUuid(id))
}

function isNumber(text: string): boolean {
  return /^[0-9]{1,15}$/.test(text)
}
