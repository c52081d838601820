import { createHash } from 'node:crypto'

/** A hash of the path, because a path may exceed the size limit of an index key. */
export function pathKey(path: string): Buffer {
  return createHash('sha256').update(path).digest()
}
