import { once } from 'node:events'
import http from 'node:http'
import type { Socket } from 'node:net'
import { inputFrame, readTerminalFrames } from '../../service/cell/host/terminal-frames.ts'
import { attach } from '../support/attached.ts'
import { createClient } from '../support/client.ts'
import type { Service } from '../support/service.ts'
import { measure, timed } from './harness.ts'

const KEYS = 50
/** Line mode is off: it would echo an unfinished line only up to 4,096 characters. */
const argv = ['sh', '-c', 'stty -icanon; printf ready; exec cat > /dev/null']

export async function echoRow(service: Service): Promise<void> {
  const client = createClient(service.base_url, service.api_key)
  const workspace = await client.open('bench-echo')
  for (const session_id of ['through', 'straight']) await client.tool(workspace, '/pty', { json: { session_id, argv } })
  const through = await attach(`${workspace.endpoint}/v1/workspaces/${workspace.id}/pty/through/attach`, { token: workspace.token })
  await through.until(/ready/)
  const key = { type: 'input', data: Buffer.from('x').toString('base64') }
  const straight = await straightAt(service, workspace.id)
  const keys = (press: () => Promise<unknown>) => async () =>
    (await timed(async () => {
      for (let n = 0; n < KEYS; n++) await press()
    })) / KEYS
  await measure(
    { row: 5, name: 'echo', title: 'terminal echo', bar: { at_most: 2 } },
    {
      reference: keys(straight.press),
      subject: keys(async () => {
        through.say(key)
        let event = await through.next()
        while (event?.type === 'heartbeat') event = await through.next()
        if (event?.type !== 'output') throw new Error(`The terminal answered ${JSON.stringify(event)}`)
      }),
    },
  )
  through.socket.terminate()
  straight.socket.destroy()
  await client.operate(`/v1/workspaces/${workspace.id}`, { method: 'DELETE' })
}

async function straightAt(service: Service, workspace_id: string): Promise<{ socket: Socket; press(): Promise<void> }> {
  const machine = (await service.inventory()).machines.find((each) => each.subject.id === workspace_id)
  if (machine === undefined) throw new Error('The workspace has no machine')
  const request = http.request(`http://${machine.address}/pty/straight/attach?offset=0`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${machine.agent_key}`,
      'x-berth-epoch': String(machine.epoch),
      connection: 'Upgrade',
      upgrade: 'berth-frames',
    },
  })
  request.end()
  const [, socket, head] = (await once(request, 'upgrade')) as [unknown, Socket, Buffer]
  if (head.length > 0) socket.unshift(head)
  socket.setNoDelay(true)
  const frame = inputFrame(Buffer.from('x'))
  let echoed: () => void = () => undefined
  const ready = Promise.withResolvers<void>()
  const output = (at: number, data: Buffer) => {
    if (at + data.length >= 'ready'.length) ready.resolve()
    echoed()
  }
  const reader = readTerminalFrames(0, { output, exit: () => socket.destroy(), error: () => socket.destroy() })
  socket.on('data', (chunk: Buffer) => reader.push(chunk))
  await ready.promise
  return {
    socket,
    press: () =>
      new Promise((resolve) => {
        echoed = resolve
        socket.write(frame)
      }),
  }
}
