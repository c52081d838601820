import { LIMITS } from '../../../../contract/limits.ts'

/** Splits as Docker does. Quotes and escapes are kept for `expand`. @returns null for an unclosed quote. */
export function splitWords(text: string, escape: string): string[] | null {
  const words: string[] = []
  let word = ''
  let quote = ''
  for (let at = 0; at < text.length; at++) {
    const char = text.charAt(at)
    if (char === escape && quote !== "'") word += char + text.charAt(++at)
    else if (quote === '' && /\s/.test(char)) {
      if (word !== '') words.push(word)
      word = ''
    } else {
      if (quote === '' && (char === '"' || char === "'")) quote = char
      else if (char === quote) quote = ''
      word += char
    }
  }
  if (quote !== '') return null
  return word === '' ? words : [...words, word]
}

const VARIABLE = /\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)(?::([-+])([^{}]*))?\})/y

/** Matches in place, without slices, because a word may be half a MiB of `$`. */
function variableAt(word: string, at: number): RegExpExecArray | null {
  VARIABLE.lastIndex = at
  return VARIABLE.exec(word)
}

export interface Variables {
  get(name: string): string | undefined
}

/** Thrown because repeated variables can grow exponentially within a few lines. */
export class TooLong extends Error {}

/**
 * @returns null for an unknown form.
 * @throws TooLong
 */
export function expand(word: string, variables: Variables, escape: string): string | null {
  let text = ''
  let quote = ''
  for (let at = 0; at < word.length; at++) {
    const char = word.charAt(at)
    if (char === escape && quote !== "'") {
      const next = word.charAt(++at)
      text += quote === '"' && !['"', '$', escape].includes(next) ? char + next : next
    } else if (char === '$' && quote !== "'") {
      const found = variableAt(word, at)
      if (found === null) {
        if (word.charAt(at + 1) === '{') return null
        text += char
        continue
      }
      const value = valueOf(found, variables)
      text += value
      if (text.length > LIMITS.build.recipe_bytes_max) throw new TooLong()
      at += found[0].length - 1
    } else if (quote === '' && (char === '"' || char === "'")) quote = char
    else if (char === quote && quote !== '') quote = ''
    else text += char
  }
  return text
}

function valueOf([, plain, braced, sign, other = '']: RegExpExecArray, variables: Variables): string {
  const value = variables.get(plain ?? braced ?? '') ?? ''
  if (sign === '-') return value === '' ? other : value
  if (sign === '+') return value === '' ? '' : other
  return value
}

export function execForm(rest: string): string[] | undefined {
  if (!rest.startsWith('[')) return undefined
  try {
    const value: unknown = JSON.parse(rest)
    return Array.isArray(value) && value.every((one) => typeof one === 'string') ? value : undefined
  } catch {
    return undefined
  }
}
