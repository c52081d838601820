import { randomInt } from 'node:crypto'
import { readFileSync } from 'node:fs'

const BLOCKS = 50 * 16
/** Counts up, so that two installations of one test never share a range. */
let block = randomInt(0, BLOCKS)

export function freeMachineNetwork(): string {
  const taken = routed()
  for (let tries = 0; tries < BLOCKS; tries++) {
    block = (block + 1) % BLOCKS
    if (!taken.has(block)) break
  }
  return `10.${200 + Math.floor(block / 16)}.${(block % 16) * 16}.0/20`
}

/** The kernel writes addresses as numbers in host byte order. */
function routed(): Set<number> {
  const rows = readFileSync('/proc/net/route', 'latin1').trimEnd().split('\n').slice(1)
  const destinations = rows.map((row) => Buffer.from(row.split('\t')[1] ?? '', 'hex').reverse())
  return new Set(
    destinations.filter(([first]) => first === 10).map(([, second = 0, third = 0]) => (second - 200) * 16 + Math.floor(third / 16)),
  )
}
