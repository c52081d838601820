import { createHmac } from 'node:crypto'
import type { Opener, SealedSubject, Sealer } from '../keys/ring/sealed-values.ts'

/** A sealed private key, in PKCS #8, DER. */
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

export const PLACEHOLDER_PREFIX = 'berth-secret-'
const PLACEHOLDER_BYTES = 20
const PLACEHOLDER = new RegExp(`${PLACEHOLDER_PREFIX}[0-9a-f]{${2 * PLACEHOLDER_BYTES}}`)

/**
 * The placeholder cannot be guessed without the authority's key.
 * It does not change with a rotation, so that running processes continue, nor with a fork, which shares the authority of its source.
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
