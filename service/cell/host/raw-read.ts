import { Agent, type ClientRequestArgs } from 'node:http'
import { connect, type NetConnectOpts, type Socket } from 'node:net'

const USUAL_BYTES = 64 << 10 // the size of Node's own reads
const TAPPED_BYTES = 256 << 10

/** Receives raw reads. The socket stays paused until the tap resumes it, and `giveBack` returns the buffer. */
export type Tap = (read: Buffer, giveBack: () => void) => void

const taps = new WeakMap<Socket, Tap>()

/**
 * Opens connections whose bytes can bypass the parser of node:http, which copies every piece of a body. For megabytes, the garbage
 * collection of the copies took four times as long as the copying.
 */
export class RawReadAgent extends Agent {
  override createConnection(options: ClientRequestArgs): Socket {
    return connectTapped(options as NetConnectOpts) // the agent names host and port, or the path of a socket
  }
}

/** Bypasses the parser from here on. The connection can carry no further call and must be destroyed. */
export function startRawRead(socket: Socket, tap: Tap): void {
  taps.set(socket, tap)
}

/** node:http reads by `data` events, so nothing is buffered for read(). */
function connectTapped(options: NetConnectOpts): Socket {
  let buffer: Buffer = Buffer.allocUnsafeSlow(USUAL_BYTES)
  const spare: Buffer[] = []
  const callback = (bytes: number) => {
    const whole = buffer
    const read = whole.subarray(0, bytes)
    const tap = taps.get(socket)
    if (tap === undefined) {
      // A small piece must not pin a whole buffer until its reader drops it: copy it and reuse the buffer.
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
