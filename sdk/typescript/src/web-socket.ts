/**
 * Returns the platform's WebSocket. Node.js has one since 22; before, the package `ws` is loaded with the first terminal. Bundles for
 * browsers contain that package's empty replacement.
 */
export async function platformWebSocket(): Promise<typeof WebSocket> {
  const { WebSocket: own } = globalThis as { WebSocket?: typeof WebSocket }
  return own ?? ((await import('ws')).WebSocket as unknown as typeof WebSocket)
}
