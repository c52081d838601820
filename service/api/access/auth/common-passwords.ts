import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { LIMITS } from '../../../../contract/limits.ts'
import { fail } from '../../../lib/fail.ts'

const LIST = new URL(import.meta.resolve('@zxcvbn-ts/language-common/src/passwords.json'))

/** Some 1,500 common passwords that the length rule alone would accept (ASVS 5.0, 6.2.4). */
const COMMON: ReadonlySet<string> = new Set(
  (JSON.parse(readFileSync(fileURLToPath(LIST), 'utf8')) as unknown[])
    .filter((word): word is string => typeof word === 'string' && word.length >= LIMITS.sign_in.password_characters_min)
    .map((word) => word.toLowerCase()),
)

export function isCommon(password: string, email?: string): boolean {
  const plain = password.normalize('NFKC').toLowerCase().trim()
  if (COMMON.has(plain) || new Set(plain).size < 2) return true
  return email !== undefined && (plain === email || plain === email.split('@', 1)[0])
}

export function refuseCommon(password: string, path: 'password' | 'new_password', email?: string): void {
  if (!isCommon(password, email)) return
  throw fail('validation_failed', null, 'The request is not valid', {
    details: { issues: [{ path, message: 'is one of the passwords that are guessed first: take another one' }] },
  })
}
