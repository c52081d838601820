export const REDACTED = '[redacted]'

const WHOLE: readonly RegExp[] = [
  /-----BEGIN [A-Z0-9 ]{0,60}-----[\s\S]*?(?:-----END [A-Z0-9 ]{0,60}-----|$)/g, // PEM, complete or truncated
  /\bsf(?:k|u|p|cb)_[A-Za-z0-9_-]{4,}/g, // Berth's
  /\beyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?/g, // JWT
  /\bgh[pousr]_[A-Za-z0-9]{16,}|\bgithub_pat_[A-Za-z0-9_]{16,}|\bglpat-[A-Za-z0-9_-]{16,}/g,
  /\bxox[a-z]-[A-Za-z0-9-]{8,}|\bnpm_[A-Za-z0-9]{16,}|\bhf_[A-Za-z0-9]{16,}|\bpypi-[A-Za-z0-9_-]{16,}/g,
  /\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{12,}/g,
  /\b(?:AKIA|ASIA)[0-9A-Z]{12,}|\bAIza[0-9A-Za-z_-]{30,}/g,
]

/** Patterns of values after a word such as `bearer`. The word is kept. */
const BEHIND: readonly RegExp[] = [
  /(\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}/gi,
  /(\b[a-z][a-z0-9+.-]*:\/\/[^\s:/@]{0,200}:)[^\s@/]{1,200}(?=@)/gi,
  /((?:api[_-]?key|access[_-]?key|token|secret|passw(?:or)?d|passphrase|pwd|authorization|credentials?)["']?\s*[:=]\s*["']?)(?!\[redacted\])[^\s"',;&]{3,}/gi,
  /(--(?:api-?key|token|secret|password)[ =])(?!\[redacted\])[^\s"']{3,}/gi,
]

const LONG = /[A-Za-z0-9+/_=-]{32,}/g
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** Redacted text is not changed again. */
export function redact(text: string): string {
  const known = WHOLE.reduce((rest, shape) => rest.replace(shape, REDACTED), text)
  const behind = BEHIND.reduce((rest, shape) => rest.replace(shape, `$1${REDACTED}`), known)
  return behind.replace(LONG, (word) => (isDrawn(word) ? REDACTED : word))
}

/** UUIDs and paths are kept, because feedback refers to them. */
function isDrawn(word: string): boolean {
  if (UUID.test(word)) return false
  const letters_min = word.startsWith('/') ? 24 : 16 // a path may contain long names
  return word.split('/').some((part) => {
    if (/^[0-9a-f]{32,}$/i.test(part)) return true
    return part.length >= letters_min && /[a-z]/.test(part) && /[A-Z]/.test(part) && /\d/.test(part)
  })
}
