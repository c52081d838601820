// A position is the entry's index at each level of a walk.

/** Each byte holds seven bits, the lowest first. */
export function bytesOf(position: readonly number[]): Buffer {
  return Buffer.from(position.flatMap((number) => digits(number)))
}

function digits(number: number): number[] {
  return number < 128 ? [number] : [128 + (number % 128), ...digits(Math.floor(number / 128))]
}

export function positionOf(bytes: Buffer): number[] {
  const position: number[] = []
  let [number, weight] = [0, 1]
  for (const byte of bytes) {
    number += (byte % 128) * weight
    weight *= 128
    if (byte >= 128) continue
    position.push(number)
    number = 0
    weight = 1
  }
  return position
}
