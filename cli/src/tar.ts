import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

/** Only GNU and BSD tar read sparse files. Others, such as BusyBox, would write a sparse file's map as its content. */
export async function holesOf(): Promise<{ reads: boolean; writes: string[] }> {
  const { stdout } = await promisify(execFile)('tar', ['--version']).catch(() => ({ stdout: '' }))
  const is_gnu = stdout.includes('GNU tar')
  return { reads: is_gnu || stdout.includes('bsdtar'), writes: is_gnu ? ['--sparse', '--format=posix'] : [] }
}
