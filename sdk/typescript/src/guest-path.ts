/** Home of the default user of commands. */
const HOME = '/home/user'

/** Makes a path absolute, as the service requires: `~` and relative paths resolve against the home directory. */
export function guestPath(path: string): string {
  if (path === '~' || path === '.') return HOME
  if (path === '' || path.startsWith('/')) return path
  return `${HOME}/${path.replace(/^(?:~|\.)\//, '')}`
}
