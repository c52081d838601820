export interface EntryOptions {
  type?: string
  target?: string
  size?: string | Buffer
  mode?: string
}

export function entryOf(
  name: string | Buffer,
  content: string | Buffer,
  { type = '0', target = '', size, mode = '0000644' }: EntryOptions = {},
): Buffer {
  const bytes = Buffer.from(content)
  const head = Buffer.alloc(512)
  const text = Buffer.from(name)
  if (text.length > 100)
    return Buffer.concat([
      entryOf('././@LongLink', `${text.toString()}\0`, { type: 'L' }),
      entryOf(text.subarray(0, 100), content, { type, target, mode }),
    ])
  text.copy(head, 0)
  head.write(mode, 100, 'latin1')
  head.write('0001750', 108, 'latin1')
  head.write('0001750', 116, 'latin1')
  if (size !== undefined && typeof size !== 'string') size.copy(head, 124)
  else head.write(typeof size === 'string' ? size : bytes.length.toString(8).padStart(11, '0'), 124, 'latin1')
  head.write('00000000000', 136, 'latin1')
  head.write(type, 156, 'latin1')
  head.write(target, 157, 'utf8')
  head.write('ustar\x0000', 257, 'latin1')
  head.fill(' ', 148, 156)
  const sum = head.reduce((all, byte) => all + byte, 0)
  head.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1')
  return Buffer.concat([head, bytes, Buffer.alloc((512 - (bytes.length % 512)) % 512)])
}

export function tarOf(...entries: Buffer[]): Buffer {
  return Buffer.concat([...entries, Buffer.alloc(1024)])
}

export function sparseRecords(records: Readonly<Record<string, string>>): Buffer {
  const lines = Object.entries(records).map(([key, value]) => {
    const rest = ` ${key}=${value}\n`
    return `${rest.length + 2}${rest}` // the length has two digits: each record has 10 to 99 bytes
  })
  return entryOf('pax', lines.join(''), { type: 'x' })
}
