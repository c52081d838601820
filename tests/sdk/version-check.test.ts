import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import path from 'node:path'
import { test } from 'node:test'
import { NO_PYTHON, PYTHON_PACKAGES } from '../support/client-guides.ts'
import { patience } from '../support/patience.ts'

const SDK = path.resolve(import.meta.dirname, '../../sdk')
const MAIN = path.join(SDK, 'typescript/src/main.ts')
const { PATH = '' } = process.env

interface Client {
  name: string
  program: string[]
  without: string[]
  package: string
  skip: string | false
}

const typescript = (options: string) => [
  process.execPath,
  '--disable-warning=ExperimentalWarning',
  '--input-type=module',
  '--eval',
  `import { Berth } from ${JSON.stringify(MAIN)}
   const options = ${options}
   await new Berth(options).me()
   await new Berth(options).me()
   if (process.env.STAY) await new Promise((resolve) => process.stdin.on('end', resolve).resume())`,
]
const python = (options: string) => [
  'python3',
  '-c',
  `import os, sys, berth\nfor _ in range(2): berth.Berth(${options}).me()\nif os.environ.get("STAY"): sys.stdin.read()`,
]
const CLIENTS: Client[] = [
  { name: 'TypeScript', program: typescript('{}'), without: typescript('{ versionCheck: false }'), package: '@berth/sdk', skip: false },
  { name: 'Python', program: python(''), without: python('version_check=False'), package: 'berth-sdk', skip: NO_PYTHON },
]

interface Outcome {
  code: number | null
  said: string
  asked: number
}

async function run(program: string[], answer: (response: ServerResponse) => void, env: Record<string, string> = {}): Promise<Outcome> {
  let asked = 0
  const heard = Promise.withResolvers<undefined>()
  const server = createServer((request, response) => {
    if (request.url !== '/v1/client-versions') return void response.end('{"type":"user"}')
    asked += 1
    response.on('close', () => heard.resolve(undefined))
    answer(response)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const url = `http://127.0.0.1:${(server.address() as { port: number }).port}`
  const [command = '', ...words] = program
  const places = { PYTHONPATH: [path.join(SDK, 'python'), PYTHON_PACKAGES ?? ''].join(':'), PYTHONDONTWRITEBYTECODE: '1' }
  const child = spawn(command, words, { env: { PATH, ...places, BERTH_URL: url, BERTH_API_KEY: 'sfk_x', ...env } })
  let said = ''
  const ended = once(child, 'close')
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (said += chunk.toString()))
  if (env['STAY'] !== undefined) {
    await Promise.race([heard.promise, ended])
    // Stdin stays open until the warning, which follows the answer.
    if (env['STAY'] === 'warned') while (!said.includes('Try:') && child.exitCode === null) await once(child.stderr, 'data')
    child.stdin.end()
  }
  const [code] = (await ended) as [number | null]
  server.closeAllConnections()
  server.close()
  return { code, said, asked }
}

const versions = (of: string, minimum_supported: string) => (response: ServerResponse) =>
  void response.end(
    JSON.stringify({
      clients: [{ package: of, latest: null, minimum_supported, upgrade_command: 'upgrade\u001b[2J it', release_notes_url: '' }],
    }),
  )

for (const { name, program, without, package: of, skip } of CLIENTS) {
  const bounded = { skip, timeout: patience(120_000) }

  test(`${name}: a version that the service no longer supports is told once a process, as plain text`, bounded, async () => {
    const { code, said, asked } = await run(program, versions(of, '9.0.0'), { STAY: 'warned' })
    assert.deepEqual([code, asked], [0, 1])
    assert.match(said, new RegExp(`This is ${of} 0\\.1\\.0, and the service supports 9\\.0\\.0 and newer\\. Try: upgrade\\?\\[2J it`))
  })

  test(`${name}: nothing is said of a version that is supported, and nothing of an answer that is none`, bounded, async () => {
    assert.deepEqual(await run(program, versions(of, '0.1.0'), { STAY: 'heard' }), { code: 0, said: '', asked: 1 })
    const nonsense = (response: ServerResponse) => void response.writeHead(500).end('<html>')
    assert.deepEqual(await run(program, nonsense, { STAY: 'heard' }), { code: 0, said: '', asked: 1 })
  })

  test(`${name}: a check without an answer delays no call and keeps no process alive`, bounded, async () => {
    const { code, said } = await run(program, () => undefined)
    assert.deepEqual([code, said], [0, ''])
  })

  test(`${name}: it is switched off by a variable and by an argument`, bounded, async () => {
    const off = { code: 0, said: '', asked: 0 }
    assert.deepEqual(await run(program, versions(of, '9.0.0'), { BERTH_NO_VERSION_CHECK: '1' }), off)
    assert.deepEqual(await run(without, versions(of, '9.0.0')), off)
  })
}
