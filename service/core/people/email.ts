import { domainToASCII } from 'node:url'
import { LIMITS } from '../../../contract/limits.ts'

const LOCAL = /^[^\s"(),:;<>[\]\\@\p{C}]{1,64}$/u
const DOMAIN = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/

/** @returns null if the text is no address. Mail goes to the normalised address, so the account belongs to the owner of that mailbox. */
export function normalizeEmail(text: string): string | null {
  // Upper case first: some letters have two lower-case forms.
  const [local = '', domain = '', ...others] = text.trim().normalize('NFKC').toUpperCase().toLowerCase().split('@')
  const host = domainToASCII(domain)
  const email = `${local}@${host}`
  if (others.length > 0 || !LOCAL.test(local) || !DOMAIN.test(host) || email.length > LIMITS.sign_in.email_characters_max) return null
  return email
}

export function domainOf(email: string): string {
  return email.slice(email.lastIndexOf('@') + 1)
}
