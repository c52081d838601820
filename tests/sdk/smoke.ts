// Browsers, Deno, Bun and each supported Node.js run this same program.

import type { Berth, BerthError, BerthOptions } from '../../sdk/typescript/src/main.ts'

export interface Smoking extends BerthOptions {
  Berth: typeof Berth
  key: string
}

export async function smoke({ Berth, key, ...options }: Smoking): Promise<object> {
  const berth = new Berth(options)
  const ws = await berth.open(key, { template: 'base' })
  const { stdout, stderr, exitCode } = await ws.exec(['sh', '-c', 'echo out; echo err >&2; exit 3'])
  const echoed = await ws.exec(['cat'], { stdin: new Uint8Array([0, 128, 255]) })

  const written = await ws.files.write('/home/user/notes.txt', 'ü 漢字\n')
  const bytes = new Uint8Array((8 << 20) + 5).fill(7)
  await ws.files.write('/home/user/large', new Blob([bytes]))
  const large = { length: 0, sevens: true }
  for await (const piece of ws.files.stream('/home/user/large')) {
    large.length += piece.length
    large.sevens &&= piece.every((byte) => byte === 7)
  }

  const command = await ws.start(['sh', '-c', 'for n in 1 2 3; do echo line $n; sleep 0.05; done'])
  const lines = { text: '', offsets: true }
  for await (const chunk of command) {
    lines.offsets &&= chunk.offset === lines.text.length
    lines.text += chunk.text
  }

  const shell = await ws.shell({ argv: ['cat'] })
  shell.write('hello\r')
  let shown = ''
  for await (const chunk of shell) {
    shown += chunk.text
    if (shown.split('hello').length > 2) break
  }
  await shell.close()

  let refused = ''
  try {
    await ws.files.read('/home/user/nothing')
  } catch (error) {
    const { name, code, reason } = error as BerthError
    refused = `${name} ${code} ${reason ?? ''}`
  }
  const leaving = new AbortController()
  const sleeping = ws.exec(['sleep', '60'], { signal: leaving.signal })
  setTimeout(() => leaving.abort(new Error('enough')), 200)
  const aborted = await sleeping.then(
    () => 'it ended',
    (error: unknown) => (error as Error).message,
  )
  await ws.delete()
  return {
    exec: [stdout, stderr, exitCode],
    echoed: [...echoed.stdoutBytes],
    files: [written.bytes_written, large],
    lines,
    terminal: shown.split('hello').length - 1,
    refused,
    aborted,
  }
}

export const SEEN = {
  exec: ['out\n', 'err\n', 3],
  echoed: [0, 128, 255],
  files: [10, { length: (8 << 20) + 5, sevens: true }],
  lines: { text: 'line 1\nline 2\nline 3\n', offsets: true },
  terminal: 2,
  refused: 'NotFoundError not_found path_not_found',
  aborted: 'enough',
}
