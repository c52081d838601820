import { Agent, type ClientRequestArgs } from 'node:http'
import { connect, type NetConnectOpts, type Socket } from 'node:net'

const USUAL_BYTES = 64 << 10 // what Node itself reads at a time
const TAPPED_BYTES = 256 << 10

/** Takes what was read as it is, and says when nobody looks at it any more. Nothing is read on until the socket is resumed. */
export type Tap = (read: Buffer, giveBack: () => void) => void

const taps = new WeakMap<Socket, Tap>()

/**
 * Connections whose bytes can be taken past the parser of node:http. It copies every piece of a body into memory of its own, and
 * with megabytes of it collecting that memory took four times as long as all the copying.
 */
export class TappedAgent extends Agent {
  override createConnection(options: ClientRequestArgs): Socket {
    return connectTapped(options as NetConnectOpts) // the agent names host and port, or the path of a socket
  }
}

/** From here on the parser hears nothing: the connection can carry no other call, and is to be destroyed. */
export function tapInto(socket: Socket, tap: Tap): void {
  taps.set(socket, tap)
}

/** Whoever reads it listens to `data`, as node:http does: nothing is kept for read(). */
function connectTapped(options: NetConnectOpts): Socket {
  let buffer: Buffer = Buffer.allocUnsafeSlow(USUAL_BYTES)
  const spare: Buffer[] = []
  const callback = (bytes: number) => {
    const whole = buffer
    const read = whole.subarray(0, bytes)
    const tap = taps.get(socket)
    if (tap === undefined) {
      // A few bytes must not hold a whole buffer for as long as their reader lets them lie: they are copied, and it is used again.
      const is_held = bytes * 2 >= whole.length
      if (is_held) buffer = Buffer.allocUnsafeSlow(USUAL_BYTES)
      socket.emit('data', is_held ? read : Buffer.from(read))
      return true
    }
    buffer = spare.pop() ?? Buffer.allocUnsafeSlow(TAPPED_BYTES)
    tap(read, () => void (whole.length === TAPPED_BYTES && spare.push(whole)))
    return false
  }
  const socket = connect({ ...options, onread: { buffer: () => buffer, callback } })
  return socket
}
