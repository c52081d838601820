/** Splits into words as Docker does: blanks outside of quotes separate them. Quotes and escapes stay, for `expand` to judge. null: a quote has no end. */
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

const VARIABLE = /^\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)(?::([-+])([^{}]*))?\})/

/**
 * A word without its quotes and escapes, with variables in the place of `$NAME`, `${NAME}`, `${NAME:-word}` and `${NAME:+word}`; not within
 * single quotes. null: a form that is not known.
 */
export function expand(word: string, variables: ReadonlyMap<string, string>, escape: string): string | null {
  let text = ''
  let quote = ''
  for (let at = 0; at < word.length; at++) {
    const char = word.charAt(at)
    if (char === escape && quote !== "'") {
      const next = word.charAt(++at)
      text += quote === '"' && !['"', '$', escape].includes(next) ? char + next : next
    } else if (char === '$' && quote !== "'") {
      const found = VARIABLE.exec(word.slice(at))
      if (found === null) {
        if (word.charAt(at + 1) === '{') return null
        text += char
        continue
      }
      const value = valueOf(found, variables)
      text += value
      at += found[0].length - 1
    } else if (quote === '' && (char === '"' || char === "'")) quote = char
    else if (char === quote && quote !== '') quote = ''
    else text += char
  }
  return text
}

function valueOf([, plain, braced, sign, other = '']: RegExpExecArray, variables: ReadonlyMap<string, string>): string {
  const value = variables.get(plain ?? braced ?? '') ?? ''
  if (sign === '-') return value === '' ? other : value
  if (sign === '+') return value === '' ? '' : other
  return value
}

/** The exec form: a JSON list of texts. undefined: it is none. */
export function execForm(rest: string): string[] | undefined {
  if (!rest.startsWith('[')) return undefined
  try {
    const value: unknown = JSON.parse(rest)
    return Array.isArray(value) && value.every((one) => typeof one === 'string') ? value : undefined
  } catch {
    return undefined
  }
}
