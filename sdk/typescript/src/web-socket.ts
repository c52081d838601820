/**
 * The platform's own. Node.js has one from 22 on; before, the package `ws` is loaded when the first terminal is opened. A bundle for browsers
 * gets that package's empty stand-in.
 */
export async function platformWebSocket(): Promise<typeof WebSocket> {
  const { WebSocket: own } = globalThis as { WebSocket?: typeof WebSocket }
  return own ?? ((await import('ws')).WebSocket as unknown as typeof WebSocket)
}
