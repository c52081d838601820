import { randomBytes } from 'node:crypto'
import { LIMITS } from '../../../../contract/limits.ts'

const { slug_characters_max } = LIMITS.organization

export function slugOf(name: string): string {
  const words = name
    .normalize('NFKD')
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-+|-+$/g, '')
  const drawn = randomBytes(4).toString('hex')
  return words === '' ? drawn : `${words.slice(0, slug_characters_max - drawn.length - 1).replace(/-+$/, '')}-${drawn}`
}
