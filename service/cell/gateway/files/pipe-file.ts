import type { IncomingMessage, ServerResponse } from 'node:http'
import { pipeline } from 'node:stream/promises'
import { startRawRead } from '../../host/raw-read.ts'

/** For smaller files, a reusable connection is worth more than a raw read. */
const TAPPED_BYTES_MIN = 512 << 10

/** Rejects when either side breaks off, and destroys both. */
export async function pipeFile(file: IncomingMessage, bytes: number, response: ServerResponse): Promise<void> {
  if (bytes < TAPPED_BYTES_MIN || file.complete) return pipeline(file, response)
  try {
    await pourTapped(file, bytes, response)
    response.end()
  } catch (error) {
    response.destroy()
    throw error
  } finally {
    file.destroy()
  }
}

function pourTapped(file: IncomingMessage, bytes: number, response: ServerResponse): Promise<void> {
  const { socket } = file
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  let left = bytes
  const write = (piece: Buffer, giveBack: () => void) => {
    if (left === 0) return giveBack() // the agent sent more than it announced
    const wanted = piece.subarray(0, left)
    left -= wanted.length
    const is_last = left === 0
    response.write(wanted, (error) => {
      giveBack()
      if (error) reject(error)
      else if (is_last) resolve()
      else socket.resume()
    })
  }
  const broken = () => reject(new Error('A file broke off'))
  file.once('close', broken).on('error', broken)
  response.once('close', broken)
  if (file.destroyed || response.destroyed) broken()
  startRawRead(socket, write)
  const begun = file.read() as Buffer | null // bytes that the parser has delivered already
  if (begun === null) socket.resume()
  else write(begun, () => undefined)
  return promise
}
