/** RFC 4648 in lower case, because host names are case-insensitive. It has no hyphen, which ends the port. */
const ALPHABET = 'abcdefghijklmnopqrstuvwxyz234567'
const CHARACTERS = 26 // of five bits each, for 128 bits
const SPARE_BITS = 2n // at the end, always 0, so that each workspace has one name
const SHAPE = /^[a-z2-7]{26}$/

/** portd (machine/internal/ports) parses the same form. */
export function hostIdOf(workspace_id: string): string {
  let bits = BigInt(`0x${workspace_id.replaceAll('-', '')}`) << SPARE_BITS
  let text = ''
  for (let at = 0; at < CHARACTERS; at++) {
    text = `${ALPHABET.charAt(Number(bits & 31n))}${text}`
    bits >>= 5n
  }
  return text
}

export function workspaceOf(host_id: string): string | null {
  if (!SHAPE.test(host_id)) return null
  let bits = 0n
  for (const character of host_id) bits = (bits << 5n) | BigInt(ALPHABET.indexOf(character))
  if ((bits & 3n) !== 0n) return null
  const hex = (bits >> SPARE_BITS).toString(16).padStart(32, '0')
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}
