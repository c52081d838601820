import { createFrameReader } from '../../links/output-frames.ts'
import { carryEvents, type Carrying } from '../carry-events.ts'

export interface Following extends Omit<Carrying, 'read' | 'follow'> {
  from: { stdout_offset: number; stderr_offset: number; follow: boolean }
}

export function followOutput({ from, ...carrying }: Following): Promise<void> {
  const { encoding } = carrying
  return carryEvents({
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
