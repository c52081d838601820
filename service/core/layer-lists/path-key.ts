import { createHash } from 'node:crypto'

/** The key of a directory: a path may be longer than a key of an index. */
export function pathKey(path: string): Buffer {
  return createHash('sha256').update(path).digest()
}
