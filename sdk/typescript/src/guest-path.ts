/** The account that commands run as by default lives here. */
const HOME = '/home/user'

/** The service takes absolute paths. `~` and relative paths are of the home directory, as in a shell that has just begun. */
export function guestPath(path: string): string {
  if (path === '~' || path === '.') return HOME
  if (path === '' || path.startsWith('/')) return path
  return `${HOME}/${path.replace(/^(?:~|\.)\//, '')}`
}
