// A real machine runs this program with Python; without one, a test plays it.

const PROGRAM = `import sys, time
kind, name, count = sys.argv[1:]
with open('/home/user/runs-' + name, 'a') as file: file.write('x')
if kind == 'echo':
    while piece := sys.stdin.buffer.read1():
        sys.stdout.buffer.write(piece)
        sys.stdout.flush()
else:
    code = ord(name[0])
    data = bytes((at * 31 + at // 251 + code) % 251 for at in range(int(count)))
    for at in range(0, len(data), 1500):
        for stream in (sys.stdout, sys.stderr):
            stream.buffer.write(data[at:at + 1500])
            stream.flush()
        time.sleep(0.002)
`

export interface HistoryCommand {
  kind: 'count' | 'echo'
  name: string
  bytes: number
}

export function argvOf({ kind, name, bytes }: HistoryCommand): string[] {
  return ['python3', '-c', PROGRAM, kind, name, String(bytes)]
}

export function readCommand([, , , kind, name = '', bytes]: readonly string[]): HistoryCommand {
  return { kind: kind === 'echo' ? 'echo' : 'count', name, bytes: Number(bytes) }
}

export function outputOf(name: string, bytes: number): Buffer {
  const code = name.charCodeAt(0)
  const data = Buffer.alloc(bytes)
  for (let at = 0; at < bytes; at += 1) data[at] = (at * 31 + Math.floor(at / 251) + code) % 251
  return data
}
