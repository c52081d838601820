import type { Listener } from '../../../db/listen.ts'
import type { ApiKeyPrincipal } from '../../../http/call.ts'

const VERDICT_MS = 10_000
const VERDICTS_MAX = 10_000

interface CachedApiKey {
  principal: ApiKeyPrincipal
  expires_at: Date | null
  read_ms: number
}

/** Caches valid API keys. A change of a key removes the key. */
export interface ApiKeyCache {
  find(digest: string, now: Date, monotonic_ms: number): ApiKeyPrincipal | null
  /** A result that was read before a change notification is not cached. */
  readThrough(
    digest: string,
    read: () => Promise<Omit<CachedApiKey, 'read_ms'> | null>,
    monotonic_ms: number,
  ): Promise<ApiKeyPrincipal | null>
  close(): void
}

export function openApiKeyCache(listener: Pick<Listener, 'on'>): ApiKeyCache {
  const known = new Map<string, CachedApiKey>()
  let changes = 0
  const unsubscribe = listener.on('berth_api_key', (id) => {
    changes++
    for (const [digest, { principal }] of known) if (id === null || principal.id === id) known.delete(digest)
  })
  return {
    find(digest, now, monotonic_ms) {
      const verdict = known.get(digest)
      if (!verdict || monotonic_ms - verdict.read_ms > VERDICT_MS) return null
      return verdict.expires_at !== null && verdict.expires_at <= now ? null : verdict.principal
    },
    async readThrough(digest, read, monotonic_ms) {
      const changes_before = changes
      const verdict = await read()
      if (!verdict) return null
      if (changes === changes_before) {
        if (known.size >= VERDICTS_MAX) known.clear() // any entry may be removed, because the next call reads it again
        known.set(digest, { ...verdict, read_ms: monotonic_ms })
      }
      return verdict.principal
    },
    close: unsubscribe,
  }
}
