import { createHash } from 'node:crypto'

/** Returns the index key of a directory. It is a hash, since a path may exceed the size limit of an index key. */
export function pathKey(path: string): Buffer {
  return createHash('sha256').update(path).digest()
}
