export interface BannedWord {
  word: RegExp
  instead: string
}

export const BANNED_WORDS: readonly BannedWord[] = [
  { word: /\b(whoever|whomever|somebody|someone else|anybody)\b/i, instead: 'name the actor: caller, operation, process, tenant, guest' },
  { word: /\bnobody\b/i, instead: 'name the actor, or write "no caller", "no process"' },
  { word: /\b(anew)\b/i, instead: 'again' },
  { word: /\bbeside\b/i, instead: 'next to, besides, during, or the name of the relation' },
  { word: /\bthereof\b/i, instead: 'of it' },
]

export interface Comment {
  line: number
  text: string
}

export function commentsOf(source: string): Comment[] {
  const found: Comment[] = []
  let is_block = false
  for (const [at, line] of source.split('\n').entries()) {
    const text = line.trim()
    if (is_block || text.startsWith('/*')) {
      found.push({ line: at + 1, text })
      is_block = !text.includes('*/')
    } else if (text.startsWith('//')) found.push({ line: at + 1, text })
    else {
      const trailing = trailingComment(line)
      if (trailing !== undefined) found.push({ line: at + 1, text: trailing })
    }
  }
  return found
}

function trailingComment(line: string): string | undefined {
  let quote = ''
  for (let at = 0; at < line.length; at += 1) {
    const char = line[at] ?? ''
    if (quote !== '') {
      if (char === '\\') at += 1
      else if (char === quote) quote = ''
    } else if (/['"`]/.test(char)) quote = char
    else if (line.startsWith('// ', at)) return line.slice(at)
  }
  return undefined
}

export function bannedIn(text: string): string[] {
  // Quoted words are names of code.
  const prose = text.replaceAll(/`[^`]*`|"[^"]*"|'[^' ]*'/g, '')
  return BANNED_WORDS.flatMap(({ word, instead }) => {
    const [found] = word.exec(prose) ?? []
    return found === undefined ? [] : [`"${found}": ${instead}`]
  })
}
