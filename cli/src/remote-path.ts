import { guestPath } from '../../sdk/typescript/src/guest-path.ts'

/** A path that does not begin with `/` is relative to the home directory. null: a local path, such as `./a:b`. */
export function parseRemotePath(text: string): { name: string; path: string } | null {
  const absolute = text.indexOf(':/')
  const at = absolute > 0 ? absolute : text.indexOf(':')
  if (at < 1 || (absolute < 1 && text.slice(0, at).includes('/'))) return null
  return { name: text.slice(0, at), path: guestPath(text.slice(at + 1) || '~') }
}
