/** `WORKSPACE:/path`; null: it is a path of this computer. */
export function placeOf(text: string): { name: string; path: string } | null {
  const at = text.indexOf(':/')
  return at < 1 ? null : { name: text.slice(0, at), path: text.slice(at + 1) }
}
