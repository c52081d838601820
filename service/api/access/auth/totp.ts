import { randomBytes } from 'node:crypto'
import { Secret, TOTP } from 'otpauth'
import { LIMITS } from '../../../../contract/limits.ts'

const PERIOD_SECONDS = 30
const SECRET_BYTES = 20
/** Periods before and after the current one, for inexact clocks and slow typing. */
const WINDOW = 1

export function newTotpSecret(): Buffer {
  return randomBytes(SECRET_BYTES)
}

export function totpText(secret: Buffer, email: string): { secret: string; otpauth_url: string } {
  const totp = totpOf(secret, email)
  return { secret: totp.secret.base32, otpauth_url: totp.toString() }
}

/** @returns the period whose code matched; null: none. */
export function stepOf(secret: Buffer, code: string, now: Date): number | null {
  if (!/^[0-9]{6}$/.test(code)) return null
  const delta = totpOf(secret, '').validate({ token: code, timestamp: now.getTime(), window: WINDOW })
  return delta === null ? null : Math.floor(now.getTime() / 1000 / PERIOD_SECONDS) + delta
}

function totpOf(secret: Buffer, label: string): TOTP {
  const bytes = new Uint8Array(secret)
  return new TOTP({
    issuer: 'Berth',
    label,
    secret: new Secret({ buffer: bytes.buffer }),
    algorithm: 'SHA1',
    digits: 6,
    period: PERIOD_SECONDS,
  })
}

/** 80 bits, in letters and digits that look different. */
export function newRecoveryCodes(): string[] {
  return Array.from({ length: LIMITS.sign_in.recovery_codes }, () => {
    const text = Array.from(randomBytes(16), (byte) => ALPHABET[byte % ALPHABET.length]).join('')
    return text.replaceAll(/(.{4})(?=.)/g, '$1-')
  })
}

const ALPHABET = 'ABCDEFGHJKLMNPQRSTUVWXYZ23456789'

export function normalizeRecoveryCode(typed: string): string {
  return typed
    .toUpperCase()
    .replaceAll(/[^A-Z0-9]/g, '')
    .replaceAll(/(.{4})(?=.)/g, '$1-')
}

/** null: fewer wrong codes than lock the factor. */
export function lockSeconds(failures: number): number | null {
  const { wrong_codes_max, lock_seconds, lock_seconds_max } = LIMITS.sign_in
  const beyond = failures - wrong_codes_max
  return beyond < 0 ? null : Math.min(lock_seconds_max, lock_seconds * 2 ** Math.min(beyond, 20))
}
