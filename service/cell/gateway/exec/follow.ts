import { createFrameReader } from '../../host/output-frames.ts'
import { relayEvents, type EventRelay } from '../relay-events.ts'

export interface Following extends Omit<EventRelay, 'read' | 'follow'> {
  from: { stdout_offset: number; stderr_offset: number; follow: boolean }
}

export function followOutput({ from, ...carrying }: Following): Promise<void> {
  const { encoding } = carrying
  return relayEvents({
    ...carrying,
    follow: from.follow,
    read: ({ text, end }) =>
      createFrameReader(from, {
        output: (stream, offset, data) => text(encoding.output(stream, offset, data)),
        exit(record) {
          text(encoding.exit(record))
          end({ kind: 'exit' })
        },
        error: (failure) => end({ kind: 'refused', failure }),
      }),
  })
}
