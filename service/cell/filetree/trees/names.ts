import { LIMITS } from '../../../../contract/limits.ts'
import { fail } from '../../../lib/fail.ts'
import type { TreeChange } from './tree.ts'

export function isName(name: string): boolean {
  if (name === '' || name === '.' || name === '..' || name.includes('/') || name.includes('\0') || !name.isWellFormed()) return false
  return Buffer.byteLength(name) <= LIMITS.tree.name_bytes_max
}

export function checkChanges(changes: readonly TreeChange[]): void {
  for (const { path } of changes) {
    if (path.every(isName)) continue
    throw fail('validation_failed', 'invalid_path', 'A name of the path is none that a file can have', { details: { field: 'path' } })
  }
}
