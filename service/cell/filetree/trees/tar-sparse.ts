import { decimal, notATar, numberAt } from './tar-fields.ts'

interface Piece {
  at: number
  size: number
}

export interface Holes {
  size: number
  pieces: Piece[]
  /** Where the list of pieces is. `in_content`: before the content (version 1.0). `goes_on`: in extension blocks that follow. */
  map: 'in_content' | 'goes_on' | 'whole'
}

const PIECES_MAX = 64 << 10
const LINE_BYTES_MAX = 20
const ZEROS = Buffer.alloc(64 << 10)

/** Reads the PAX format 1.0 and the old GNU format. @returns null if the file has no holes */
export function holesOfHead(block: Buffer, flag: string, said: ReadonlyMap<string, string>): Holes | 'unknown' | null {
  if (flag === 'S') {
    const holes: Holes = { size: numberAt(block, 483, 12), pieces: [], map: 'goes_on' }
    addPieces(holes, block, { at: 386, count: 4 })
    return holes
  }
  if (![...said.keys()].some((key) => key.startsWith('GNU.sparse.'))) return null
  const size = said.get('GNU.sparse.realsize')
  if (said.get('GNU.sparse.major') !== '1' || said.get('GNU.sparse.minor') !== '0' || size === undefined) return 'unknown'
  return { size: decimal(size), pieces: [], map: 'in_content' }
}

export function piecesOfExtension(holes: Holes, block: Buffer): void {
  addPieces(holes, block, { at: 0, count: 21 })
}

function addPieces(holes: Holes, block: Buffer, { at, count }: { at: number; count: number }): void {
  const end = at + count * 24
  for (let each = at; each < end && block[each] !== 0; each += 24)
    holes.pieces.push({ at: numberAt(block, each, 12), size: numberAt(block, each + 12, 12) })
  if (holes.pieces.length > PIECES_MAX) throw notATar()
  holes.map = block[end] === 0 ? 'whole' : 'goes_on'
}

/**
 * The format is the number of pieces, then the offset and size of each. Each number has its own line, and the list is padded to a block.
 */
export async function piecesOfMap(nextBlock: () => Promise<Buffer>): Promise<Piece[]> {
  let block: Buffer = Buffer.alloc(0)
  let at = 0
  const number = async () => {
    let line = ''
    for (;;) {
      if (at === block.length) [block, at] = [await nextBlock(), 0]
      const character = String.fromCharCode(block[at++] ?? 0)
      if (character === '\n') return decimal(line)
      line += character
      if (line.length > LINE_BYTES_MAX) throw notATar()
    }
  }
  const count = await number()
  if (count > PIECES_MAX) throw notATar()
  const pieces: Piece[] = []
  while (pieces.length < count) pieces.push({ at: await number(), size: await number() })
  return pieces
}

export async function* withHoles({ size, pieces }: Holes, data: AsyncGenerator<Buffer>): AsyncGenerator<Buffer> {
  let written = 0
  let held: Buffer = Buffer.alloc(0)
  for (const piece of [...pieces, { at: size, size: 0 }]) {
    if (piece.at < written || piece.at + piece.size > size) throw notATar()
    for (; written < piece.at; written += ZEROS.length) yield ZEROS.subarray(0, piece.at - written)
    written = piece.at
    for (let left = piece.size; left > 0;) {
      if (held.length === 0) {
        const next = await data.next()
        if (next.done === true) throw notATar()
        held = next.value
      }
      const part = held.subarray(0, left)
      yield part
      held = held.subarray(part.length)
      left -= part.length
    }
    written += piece.size
  }
}
