import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Berth } from '@berth/sdk'
import { generateText, isStepCount } from 'ai'
import { MockLanguageModelV4 } from 'ai/test'
import { berthSandbox, berthTools } from './berth-sandbox.ts'

const ws = await new Berth().open('ai-sdk', { template: 'base' })
const sandbox = berthSandbox(ws)

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
}
const call = (toolName: string, input: object) => ({
  content: [{ type: 'tool-call' as const, toolCallId: toolName, toolName, input: JSON.stringify(input) }],
  finishReason: { unified: 'tool-calls' as const, raw: undefined },
  usage,
  warnings: [],
})
const last = {
  content: [{ type: 'text' as const, text: 'done' }],
  finishReason: { unified: 'stop' as const, raw: undefined },
  usage,
  warnings: [],
}

test('a model writes a program, runs it, and reads what it wrote', async () => {
  const model = new MockLanguageModelV4({
    doGenerate: [
      call('writeFile', { path: 'primes.py', content: 'print([n for n in range(2, 20) if all(n % d for d in range(2, n))])\n' }),
      call('run', { command: 'python3 primes.py | tee primes.txt; exit 3' }),
      call('readFile', { path: '/home/user/primes.txt' }),
      last,
    ],
  })
  const { text, steps } = await generateText({ model, tools: berthTools(ws), prompt: 'Primes below 20', stopWhen: isStepCount(9) })
  const primes = '[2, 3, 5, 7, 11, 13, 17, 19]\n'
  const outputs = steps.flatMap(({ toolResults }) => toolResults.map(({ output }) => output))
  assert.deepEqual([text, outputs], ['done', ['written', { exitCode: 3, stdout: primes, stderr: '' }, primes]])
})

test('files are written with their folders, read, listed, followed through links and deleted', async () => {
  await sandbox.writeTextFile({ path: 'a/b/notes.txt', content: 'one\ntwo\nthree\n' })
  assert.equal(await sandbox.readTextFile({ path: '/home/user/a/b/notes.txt', startLine: 2, endLine: 2 }), 'two')
  assert.equal(await sandbox.readTextFile({ path: 'a/b/notes.txt', startLine: 3, endLine: 99 }), 'three\n')
  await sandbox.writeBinaryFile({ path: 'a/bytes', content: new Uint8Array([0, 255]) })
  assert.deepEqual([...((await sandbox.readBinaryFile({ path: 'a/bytes' })) ?? [])], [0, 255])
  await sandbox.run({ command: 'ln -s b/notes.txt a/link' })
  assert.deepEqual(await sandbox.stat({ path: 'a/link' }), { type: 'file', size: 14 })
  const entries = (await sandbox.listDirectory({ path: 'a' }))?.toSorted((a, b) => a.name.localeCompare(b.name))
  assert.deepEqual(entries, [
    { name: 'b', type: 'directory' },
    { name: 'bytes', type: 'file' },
    { name: 'link', type: 'symlink' },
  ])
  assert.deepEqual([await sandbox.deleteFile({ path: 'a/link' }), await sandbox.deleteFile({ path: 'a/link' })], [true, false])
  assert.equal(await sandbox.readTextFile({ path: 'a/b/notes.txt' }), 'one\ntwo\nthree\n')
  await assert.rejects(async () => sandbox.deleteFile({ path: 'a/b' }))
  await assert.rejects(async () => sandbox.writeTextFile({ path: 'a/b', content: 'x' }))
})

test('missing paths yield null', async () => {
  const missing = { path: 'missing/file' }
  const answers = [await sandbox.readFile(missing), await sandbox.readBinaryFile(missing), await sandbox.readTextFile(missing)]
  assert.deepEqual([...answers, await sandbox.stat(missing), await sandbox.listDirectory(missing)], [null, null, null, null, null])
})

test('a large file streams in and out', async () => {
  const bytes = new Uint8Array(9 << 20).fill(7)
  await sandbox.writeFile({ path: 'large', content: new Blob([bytes]).stream() })
  let size = 0
  for await (const part of (await sandbox.readFile({ path: 'large' })) ?? []) size += part.length
  assert.equal(size, bytes.length)
})

test('a process streams its output, takes input and reports its end', async () => {
  const child = await sandbox.spawn({
    command: 'echo "$GREETING" >&2; cat; exit 4',
    workingDirectory: '/tmp',
    env: { GREETING: 'hello' },
    stdin: true,
  })
  const writer = child.stdin.getWriter()
  await writer.write(new TextEncoder().encode('typed'))
  await writer.close()
  assert.deepEqual([await new Response(child.stdout).text(), await new Response(child.stderr).text()], ['typed', 'hello\n'])
  assert.deepEqual(await child.wait(), { exitCode: 4 })
  const killed = await sandbox.spawn({ command: 'exec sleep 600' })
  await killed.kill()
  await killed.kill()
  assert.notEqual((await killed.wait()).exitCode, 0)
})

test('an abort ends the command and throws its reason', async () => {
  const leaving = new AbortController()
  const child = await sandbox.spawn({ command: 'echo begun; exec sleep 601', abortSignal: leaving.signal })
  await child.stdout.getReader().read()
  leaving.abort(new Error('enough'))
  await assert.rejects(async () => child.wait(), /enough/)
  await assert.rejects(async () => sandbox.run({ command: 'sleep 602', abortSignal: AbortSignal.timeout(300) }))
  const left = await ws.exec(['sh', '-c', 'for i in $(seq 100); do pgrep -f "sleep 60[12]" > /dev/null || exit 0; sleep 0.1; done; exit 1'])
  assert.equal(left.exitCode, 0)
})
