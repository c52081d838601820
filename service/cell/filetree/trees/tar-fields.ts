import { fail } from '../../../lib/fail.ts'

const strict = new TextDecoder('utf-8', { fatal: true })

export function notATar() {
  return fail('validation_failed', null, 'The body is no tar, or ends in the middle of one')
}

export function checkSum(block: Buffer): void {
  const said = numberAt(block, 148, 8)
  const sum = block.reduce((all, byte, at) => all + (at >= 148 && at < 156 ? 32 : byte), 0)
  if (sum !== said) throw notATar()
}

export function plainName(block: Buffer): string {
  const prefix = block.toString('latin1', 257, 263) === 'ustar\0' ? textAt(block, 345, 155) : ''
  const name = textAt(block, 0, 100)
  return prefix === '' ? name : `${prefix}/${name}`
}

export function textAt(block: Buffer, at: number, length: number): string {
  const field = block.subarray(at, at + length)
  const end = field.indexOf(0)
  return textOf(end < 0 ? field : field.subarray(0, end))
}

export function textOf(bytes: Buffer): string {
  try {
    return strict.decode(bytes)
  } catch {
    throw fail('validation_failed', null, 'A name in the tar is not UTF-8')
  }
}

/** Reads an octal number. GNU tar writes larger numbers in base 256, which the first bit of the field marks. */
export function numberAt(block: Buffer, at: number, length: number): number {
  const field = block.subarray(at, at + length)
  if (((field[0] ?? 0) & 0x80) !== 0) {
    const value = BigInt(`0x${field.toString('hex')}`) & ((1n << BigInt(length * 8 - 1)) - 1n)
    if (((field[0] ?? 0) & 0x40) !== 0 || value > BigInt(Number.MAX_SAFE_INTEGER)) throw notATar()
    return Number(value)
  }
  const text = field
    .toString('latin1')
    .replace(/[\0 ]+$/, '')
    .trimStart()
  if (!/^[0-7]*$/.test(text)) throw notATar()
  return text === '' ? 0 : Number.parseInt(text, 8)
}

export function decimal(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw notATar()
  return Number(text)
}

export function recordsOf(bytes: Buffer): Map<string, string> {
  const records = new Map<string, string>()
  for (let at = 0; at < bytes.length;) {
    const space = bytes.indexOf(32, at)
    const length = space < 0 ? 0 : decimal(bytes.toString('latin1', at, space))
    if (length <= space - at + 1 || at + length > bytes.length || bytes[at + length - 1] !== 10) throw notATar()
    const text = textOf(bytes.subarray(space + 1, at + length - 1))
    const equals = text.indexOf('=')
    if (equals < 1) throw notATar()
    records.set(text.slice(0, equals), text.slice(equals + 1))
    at += length
  }
  return records
}
