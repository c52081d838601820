import { Berth, BerthError, Command, Terminal, Workspace } from '../../sdk/typescript/src/main.ts'

export interface Seen {
  called: Set<string>
  there: Set<string>
}

const KINDS = [
  [Berth, 'berth'],
  [Workspace, 'ws'],
  [Command, 'command'],
  [Terminal, 'terminal'],
] as const

export function methodsOf(target: object, name: string): string[] {
  const properties = new Set<string | symbol>()
  for (let each = target; each !== Object.prototype; each = Object.getPrototypeOf(each) as object)
    for (const property of Reflect.ownKeys(each)) properties.add(property)
  return [...properties].flatMap((property) => {
    if (property === 'constructor' || isGetter(target, property)) return []
    const value: unknown = Reflect.get(target, property)
    const at = `${name}.${String(property)}`
    if (typeof value === 'function') return [at]
    return isNamespace(value) ? methodsOf(value, at) : []
  })
}

function isGetter(target: object, property: string | symbol): boolean {
  const own = Object.getOwnPropertyDescriptor(target, property) ?? Object.getOwnPropertyDescriptor(Object.getPrototypeOf(target), property)
  return own?.get !== undefined
}

function isNamespace(value: unknown): value is object {
  return typeof value === 'object' && value !== null && Object.values(value).some((each) => typeof each === 'function')
}

export function recorded<T extends object>(target: T, name: string, seen: Seen): T {
  const outcome = (value: unknown): unknown => {
    if (typeof value !== 'object' || value === null) return value
    const kind = KINDS.find(([of]) => value instanceof of)?.[1]
    // A workspace's tools are its own properties, so no prototype lists them.
    if (kind === 'ws') for (const each of methodsOf(value, 'ws')) seen.there.add(each)
    if (kind !== undefined) return recorded(value, kind, seen)
    return 'page' in value && 'all' in value ? recorded(value, 'list', seen) : value
  }
  return new Proxy(target, {
    get(_target, property) {
      const value: unknown = Reflect.get(target, property, target)
      const at = `${name}.${String(property)}`
      if (isNamespace(value)) return recorded(value, at, seen)
      if (typeof value !== 'function') return value
      return (...args: unknown[]) => {
        const result: unknown = Reflect.apply(value as () => unknown, target, args)
        if (!(result instanceof Promise)) {
          seen.called.add(at)
          return outcome(result)
        }
        return result.then(
          (done) => {
            seen.called.add(at)
            return outcome(done)
          },
          (error: unknown) => {
            if (error instanceof BerthError && error.status > 0) seen.called.add(at)
            throw error
          },
        )
      }
    },
  })
}
