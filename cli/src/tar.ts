import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

/**
 * What the tar of this computer knows of files with holes. Those of GNU and of BSD read them. One that does not, as BusyBox's, would take the
 * map of a file for its content. Only GNU's is asked to write them.
 */
export async function holesOf(): Promise<{ reads: boolean; writes: string[] }> {
  const { stdout } = await promisify(execFile)('tar', ['--version']).catch(() => ({ stdout: '' }))
  const is_gnu = stdout.includes('GNU tar')
  return { reads: is_gnu || stdout.includes('bsdtar'), writes: is_gnu ? ['--sparse', '--format=posix'] : [] }
}
