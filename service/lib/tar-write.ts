export interface TarEntry {
  /** Path without a slash at the start or the end. */
  name: string
  type: 'file' | 'directory' | 'symlink'
  mode: number
  modified_ms: number
  /** Size of a file; 0 for other types. */
  size: number
  target?: string
}

export const BLOCK = 512
export const TAR_END = Buffer.alloc(2 * BLOCK)

const FLAGS = { file: '0', directory: '5', symlink: '2' } as const
/** All entries belong to the workspace's user, because a tree stores no owners. */
const OWNER = { id: 1000, name: 'user' }
const OCTAL_MAX = 8 ** 11 - 1

/** The header of an entry. A pax header precedes it if the plain header cannot hold its values. */
export function tarHead(entry: TarEntry): Buffer {
  const name = entry.type === 'directory' ? `${entry.name}/` : entry.name
  const target = entry.target ?? ''
  const records: [string, string][] = []
  if (!fits(name)) records.push(['path', name])
  if (!fits(target)) records.push(['linkpath', target])
  if (entry.size > OCTAL_MAX) records.push(['size', String(entry.size)])
  if (entry.modified_ms % 1000 !== 0 || entry.modified_ms < 0 || entry.modified_ms / 1000 > OCTAL_MAX) {
    records.push(['mtime', (entry.modified_ms / 1000).toFixed(3)])
  }
  const plain = head({ ...entry, name, target }, FLAGS[entry.type])
  if (records.length === 0) return plain
  const extended = Buffer.concat(records.map(([key, value]) => record(key, value)))
  const before = { name: 'pax', mode: 0o644, modified_ms: 0, size: extended.length, target: '' }
  return Buffer.concat([head(before, 'x'), extended, padding(extended.length), plain])
}

export function padding(bytes: number): Buffer {
  return Buffer.alloc((BLOCK - (bytes % BLOCK)) % BLOCK)
}

function fits(text: string): boolean {
  return Buffer.byteLength(text) <= 100 && /^[\x20-\x7e]*$/.test(text)
}

function record(key: string, value: string): Buffer {
  const rest = ` ${key}=${value}\n`
  const bytes = Buffer.byteLength(rest)
  let length = bytes + String(bytes).length
  if (bytes + String(length).length !== length) length = bytes + String(length).length
  return Buffer.from(`${length}${rest}`)
}

function head(
  { name, mode, modified_ms, size, target }: Required<Pick<TarEntry, 'name' | 'mode' | 'modified_ms' | 'size' | 'target'>>,
  flag: string,
): Buffer {
  const block = Buffer.alloc(BLOCK)
  const octal = (value: number, at: number, digits: number) => {
    const fitting = Math.min(Math.max(0, Math.floor(value)), 8 ** digits - 1)
    block.write(fitting.toString(8).padStart(digits, '0'), at, 'latin1')
  }
  block.write(name, 0, 100, 'utf8')
  octal(mode, 100, 7)
  octal(OWNER.id, 108, 7)
  octal(OWNER.id, 116, 7)
  octal(size, 124, 11)
  octal(modified_ms / 1000, 136, 11)
  block.write(flag, 156, 'latin1')
  block.write(target, 157, 100, 'utf8')
  block.write('ustar\0' + '00', 257, 'latin1')
  block.write(OWNER.name, 265, 'latin1')
  block.write(OWNER.name, 297, 'latin1')
  block.fill(' ', 148, 156)
  const sum = block.reduce((all, byte) => all + byte, 0)
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1')
  return block
}
