import { createHmac } from 'node:crypto'
import type { Opener, SealedSubject, Sealer } from '../key-ring/sealed-values.ts'

/** The private key of an authority (PKCS #8, DER) as it is kept. */
export interface SealedAuthority {
  id: string
  key_id: string
  sealed_key: string
}

export async function sealAuthority(sealer: Sealer, id: string, private_key: Buffer): Promise<SealedAuthority> {
  const { key_id, sealed } = await sealer.seal(subjectOf(id), private_key)
  return { id, key_id, sealed_key: sealed }
}

export function openAuthority(opener: Opener, { id, key_id, sealed_key }: SealedAuthority): Promise<Buffer> {
  return opener.open(subjectOf(id), { key_id, sealed: sealed_key })
}

export async function resealAuthority(opener: Opener, sealer: Sealer, authority: SealedAuthority): Promise<SealedAuthority> {
  return sealAuthority(sealer, authority.id, await openAuthority(opener, authority))
}

/** By what people know a placeholder. */
export const PLACEHOLDER_PREFIX = 'berth-secret-'
const PLACEHOLDER_BYTES = 20
const PLACEHOLDER = new RegExp(`${PLACEHOLDER_PREFIX}[0-9a-f]{${2 * PLACEHOLDER_BYTES}}`)

/**
 * What a workspace has in the place of a value. Nobody can guess it who has not the authority's key. It stays over rotations, so that what
 * runs goes on, and over forks, which have the authority of their source.
 */
export function placeholderOf(private_key: Buffer, secret_id: string): string {
  const digest = createHmac('sha256', private_key).update(`placeholder ${secret_id}`).digest()
  return PLACEHOLDER_PREFIX + digest.subarray(0, PLACEHOLDER_BYTES).toString('hex')
}

export function isPlaceholderIn(text: string): boolean {
  return PLACEHOLDER.test(text)
}

function subjectOf(id: string): SealedSubject {
  return { purpose: 'authority', row: `authorities/${id}` }
}
