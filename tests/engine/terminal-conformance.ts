import assert from 'node:assert/strict'
import { request } from 'node:http'
import type { Duplex } from 'node:stream'
import { after, before, suite, test } from 'node:test'
import { frame } from '../gateway/support/fake-agent.ts'
import { TERMINAL } from '../gateway/support/fake-terminal.ts'

export interface TerminalHarness {
  address: string
  headers: Record<string, string>
  play(step: 'opened' | 'typed'): Promise<void>
  close(): Promise<void>
}

const KIND = { stdout: 1, exit: 3, input: 16 }
const HEADER_BYTES = 16
const PROGRAM = ['/bin/sh', '-c', "printf one; read line; printf 'two %s' $line"]
export const PRINTED = { opened: 'one', typed: 'word\r\ntwo word' }

export function terminalConformance(name: string, open: () => Promise<TerminalHarness>): void {
  void suite(`terminal: ${name}`, () => {
    let agent: TerminalHarness
    before(async () => {
      agent = await open()
    })
    after(() => agent.close())

    const ask = async (method: string, path: string, body?: object): Promise<[number, Record<string, unknown>]> => {
      const response = await fetch(`http://${agent.address}${path}`, {
        method,
        headers: agent.headers,
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      return [response.status, (await response.json()) as Record<string, unknown>]
    }

    test('opening, reading and resizing a terminal answer its whole record each time', async () => {
      const asked = { session_id: 't', fingerprint: 'a terminal', argv: PROGRAM, cwd: '/', user: 'root', env: {}, cols: 80, rows: 24 }
      const answers = [
        await ask('POST', '/pty', asked),
        await ask('GET', '/pty/t'),
        await ask('POST', '/pty/t/resize', { cols: 80, rows: 24 }),
      ]
      assert.deepEqual(
        answers.map(([status]) => status),
        [201, 200, 200],
      )
      for (const [, record] of answers) {
        assert.deepEqual(Object.keys(record).sort(), Object.keys(TERMINAL).sort())
        const { session_id, state, cols, rows, exit_code, ended_at, error } = record
        const { session_id: id, state: running, ...rest } = TERMINAL
        assert.deepEqual(
          [session_id, state, cols, rows, exit_code, ended_at, error],
          [id, running, rest.cols, rest.rows, rest.exit_code, rest.ended_at, rest.error],
        )
      }
    })

    test('an attached terminal prints frames without a gap, accepts typed frames, and ends with its record', async () => {
      const socket = await attach(agent)
      const read = frames(socket)
      await agent.play('opened')
      const printed = async (so_far: string, wanted: string) => {
        let text = so_far
        while (text.length < wanted.length) {
          const { kind, offset, data } = await next(read)
          assert.deepEqual([kind, offset], [KIND.stdout, text.length])
          text += data.toString()
        }
        assert.equal(text, wanted)
        return text
      }
      const first = await printed('', PRINTED.opened)
      socket.write(frame(KIND.input, 0, 'word\n'))
      await agent.play('typed')
      const all = await printed(first, PRINTED.opened + PRINTED.typed)
      const last = await next(read)
      const record = JSON.parse(last.data.toString()) as Record<string, unknown>
      assert.deepEqual([last.kind, Object.keys(record).sort()], [KIND.exit, Object.keys(TERMINAL).sort()])
      const { state, exit_code, output_bytes, output_available_from } = record
      assert.deepEqual([state, exit_code, output_bytes, output_available_from], ['exited', 0, all.length, 0])
      assert.match(String(record['ended_at']), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
      socket.destroy()
    })
  })
}

function attach({ address, headers }: TerminalHarness): Promise<Duplex> {
  return new Promise((resolve, reject) => {
    const asked = request(`http://${address}/pty/t/attach?offset=0`, {
      method: 'POST',
      headers: { ...headers, connection: 'Upgrade', upgrade: 'berth-frames' },
    })
    asked.on('upgrade', (response, socket, head) => {
      assert.equal(response.statusCode, 101)
      socket.unshift(head)
      resolve(socket)
    })
    asked.on('response', (response) => reject(new Error(`it answered ${response.statusCode} and did not switch`)))
    asked.on('error', reject)
    asked.end()
  })
}

interface Frame {
  kind: number
  offset: number
  data: Buffer
}

async function* frames(socket: Duplex): AsyncGenerator<Frame, void> {
  let bytes: Buffer = Buffer.alloc(0)
  for await (const chunk of socket as AsyncIterable<Buffer>) {
    bytes = Buffer.concat([bytes, chunk])
    while (bytes.length >= HEADER_BYTES && bytes.length >= HEADER_BYTES + bytes.readUInt32BE(4)) {
      const end = HEADER_BYTES + bytes.readUInt32BE(4)
      yield { kind: bytes.readUInt8(0), offset: Number(bytes.readBigUInt64BE(8)), data: bytes.subarray(HEADER_BYTES, end) }
      bytes = bytes.subarray(end)
    }
  }
}

/** Skips heartbeats, which may come at any time. */
async function next(read: AsyncGenerator<Frame, void>): Promise<Frame> {
  const HEARTBEAT = 4
  for (;;) {
    const { value } = await read.next()
    assert.ok(value, 'the connection ended without an exit')
    if (value.kind !== HEARTBEAT) return value
  }
}
