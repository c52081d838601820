import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'

const ROOT = path.resolve(import.meta.dirname, '../..')

/** Includes new files that git does not ignore. `within` are folders or patterns. */
export function sourceFiles(...within: string[]): string[] {
  const listed = ['-c', 'safe.directory=*', 'ls-files', '--cached', '--others', '--exclude-standard', ...within]
  return execFileSync('git', listed, { cwd: ROOT, encoding: 'utf8' })
    .split('\n')
    .filter((file) => file !== '' && existsSync(path.join(ROOT, file)))
}

export function textOf(file: string): string {
  return readFileSync(path.join(ROOT, file), 'utf8')
}
