import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

/** Others than GNU and BSD tar, such as BusyBox, would take the map of a sparse file for its content. */
export async function holesOf(): Promise<{ reads: boolean; writes: string[] }> {
  const { stdout } = await promisify(execFile)('tar', ['--version']).catch(() => ({ stdout: '' }))
  const is_gnu = stdout.includes('GNU tar')
  return { reads: is_gnu || stdout.includes('bsdtar'), writes: is_gnu ? ['--sparse', '--format=posix'] : [] }
}
