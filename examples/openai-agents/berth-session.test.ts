import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Berth } from '@berth/sdk'
import { run, setTracingDisabled } from '@openai/agents'
import { SandboxAgent } from '@openai/agents/sandbox'
import { assistantMessage, functionCall, ScriptedModel } from '@openai/agents/testing'
import { berthSession } from './berth-session.ts'

setTracingDisabled(true)
const ws = await new Berth().open('openai-agents', { template: 'base' })
const session = berthSession(ws)

test('an agent patches a file, runs it and reads its output', async () => {
  await ws.files.write('/home/user/primes.py', 'print("none")\n')
  const diff = '@@\n-print("none")\n+print([n for n in range(2, 12) if all(n % d for d in range(2, n))])'
  const operation = { type: 'update_file' as const, path: 'primes.py', diff }
  const model = new ScriptedModel([
    [{ type: 'apply_patch_call', callId: 'a', status: 'completed', operation }],
    [functionCall('exec_command', { cmd: 'python3 primes.py; exit 3', login: true, tty: false, yield_time_ms: 10_000 }, { callId: 'b' })],
    [assistantMessage('done')],
  ])
  const agent = new SandboxAgent({ name: 'tester', instructions: 'Print primes.', model })
  const result = await run(agent, 'Primes below 12', { sandbox: { session } })
  const outputs = result.newItems.flatMap((item) => (item.type === 'tool_call_output_item' ? [String(item.output)] : []))
  assert.equal(result.finalOutput, 'done')
  assert.match(outputs[1] ?? '', /Process exited with code 3\nOutput:\n\[2, 3, 5, 7, 11\]\n$/)
  assert.equal((await ws.refresh()).observed_state, 'running')
})

test('a running command can be polled and typed to, with and without a terminal', async () => {
  for (const tty of [false, true]) {
    const first = await session.execCommand({ cmd: 'read line; echo "got $line"; exit 5', tty, login: false, yieldTimeMs: 100 })
    const id = Number(/Process running with session ID (\d+)/.exec(first)?.[1])
    const last = await session.writeStdin({ sessionId: id, chars: 'a word\n', yieldTimeMs: 30_000 })
    assert.match(last, /Process exited with code 5\n.*got a word/s)
  }
  await assert.rejects(session.writeStdin({ sessionId: 999 }), /no session 999/)
})

test('a command is interrupted through its terminal', async () => {
  const first = await session.execCommand({ cmd: 'echo begun; exec sleep 600', tty: true, login: false, yieldTimeMs: 2000 })
  const id = Number(/session ID (\d+)/.exec(first)?.[1])
  assert.match(await session.writeStdin({ sessionId: id, chars: '\u0003', yieldTimeMs: 30_000 }), /Process exited/)
})

test('exec returns both streams and the exit code, and runs as the requested user', async () => {
  const { stdout, stderr, exitCode, output } = await session.exec({ cmd: 'id -un; echo err >&2; exit 2', runAs: 'root', workdir: '/tmp' })
  assert.deepEqual([stdout, stderr, exitCode, output], ['root\n', 'err\n', 2, 'root\nerr\n'])
})

test('output is cut to the requested length and keeps its end', async () => {
  const { stdout } = await session.exec({ cmd: 'seq 100000', maxOutputTokens: 10 })
  assert.equal(stdout, '94\n99995\n99996\n99997\n99998\n99999\n100000\n')
})

test("files are read, listed and checked relative to the workspace's home", async () => {
  await ws.files.write('/home/user/folder/file', 'content', { create_parents: true })
  assert.equal(Buffer.from(await session.readFile({ path: 'folder/file', maxBytes: 4 })).toString(), 'cont')
  assert.deepEqual(await session.listDir({ path: 'folder' }), [{ name: 'file', path: '/home/user/folder/file', type: 'file' }])
  const exist = [await session.pathExists('folder/file'), await session.pathExists('none'), await session.directoryExists('folder'), await session.directoryExists('folder/file')] // prettier-ignore
  assert.deepEqual(exist, [true, false, true, false])
})

test('the editor creates, moves and deletes, and reports failures', async () => {
  const editor = session.createEditor()
  await editor.createFile({ type: 'create_file', path: 'made/new', diff: '+one\n+two' })
  const moved = { type: 'update_file' as const, path: 'made/new', diff: '@@\n one\n-two\n+three', moveTo: 'made/moved' }
  assert.deepEqual(await editor.updateFile(moved), { status: 'completed' })
  assert.match(await ws.files.readText('/home/user/made/moved'), /^one\nthree/)
  assert.deepEqual(await editor.deleteFile({ type: 'delete_file', path: 'made/moved' }), { status: 'completed' })
  assert.equal(((await editor.deleteFile({ type: 'delete_file', path: 'made/moved' })) as { status: string }).status, 'failed')
})
