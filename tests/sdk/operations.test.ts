import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { Command, Terminal } from '../../sdk/typescript/src/main.ts'
import { createDouble } from '../../sdk/typescript/src/testing/double.ts'
import { NO_PYTHON, PYTHON_PACKAGES } from '../support/client-guides.ts'
import { OPERATION_METHODS } from './operation-methods.ts'
import { OPERATION_IDS, operationOf } from './operations.ts'
import { methodsOf } from './recorded.ts'
import { patience } from '../support/patience.ts'

const PYTHON = path.resolve(import.meta.dirname, '../../sdk/python')

const PYTHON_ALONE: Record<string, string> = {
  'berth.close': "its connections are its own; those of a platform's `fetch` are not",
  'berth.__exit__': 'as `close`',
}
async function methodsOfTypescript(): Promise<string[]> {
  const { berth } = createDouble()
  const ws = await berth.open('surface', { template: 'base' })
  const surfaces = [methodsOf(berth, 'berth'), methodsOf(ws, 'ws'), methodsOf(berth.workspaces(), 'list')]
  const prototypes = [methodsOf(Command.prototype, 'command'), methodsOf(Terminal.prototype, 'terminal')]
  return [...surfaces, ...prototypes].flat()
}

function inPython(name: string): string {
  const words = name.replace('Symbol(Symbol.asyncIterator)', '__iter__').replace('Symbol(Symbol.asyncDispose)', '__exit__')
  return words.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

test('each operation of the description has a method of the SDKs, or a reason why it has none', async () => {
  assert.deepEqual(Object.keys(OPERATION_METHODS).toSorted(), [...OPERATION_IDS].toSorted())
  const there = await methodsOfTypescript()
  const named = Object.values(OPERATION_METHODS).filter((each) => typeof each === 'string')
  assert.deepEqual(named.filter((each) => !there.includes(each)), []) // prettier-ignore
})

test('a request maps to its operation; of two matches the one with fewer parameters wins', () => {
  assert.equal(operationOf('POST', '/v1/workspaces/open'), 'workspaces.open')
  assert.equal(operationOf('DELETE', '/v1/templates/open/draft'), 'drafts.discard')
  assert.equal(operationOf('GET', '/v1/nothing'), undefined)
})

/** Methods that the language itself defines need not be mentioned. */
function isNamed(page: string, method: string): boolean {
  if (/Symbol|__/.test(method)) return true
  return new RegExp(`\\b${method.split('.').at(-1) ?? ''}\\b`).test(page)
}

test("each SDK's README names its methods", async () => {
  const page = (language: string) => readFileSync(path.resolve(import.meta.dirname, `../../sdk/${language}/README.md`), 'utf8')
  const there = await methodsOfTypescript()
  assert.deepEqual(there.filter((each) => !isNamed(page('typescript'), each)), []) // prettier-ignore
  assert.deepEqual(there.map(inPython).filter((each) => !isNamed(page('python'), each)), []) // prettier-ignore
})

const SURFACE = `
import json, sys
sys.path.insert(0, "tests")
import berth
from berth._sync.gateway import Manner
from recorded import methods_of
client = berth.Berth("http://127.0.0.1:1", "sfk_x")
ws = berth.Workspace(client._app, {"id": "x", "key": "k"}, Manner(), None)
found = methods_of(client, "berth") | methods_of(ws, "ws") | methods_of(client.workspaces(), "list")
print(json.dumps(sorted(found | methods_of(ws.command("c"), "command") | methods_of(ws.terminal("t"), "terminal"))))
`

test("the SDKs have the same methods, each in its language's spelling", { skip: NO_PYTHON, timeout: patience(60_000) }, async () => {
  const env = { PATH: process.env['PATH'] ?? '', PYTHONPATH: [PYTHON, PYTHON_PACKAGES].join(':'), PYTHONDONTWRITEBYTECODE: '1' }
  const { stdout } = await promisify(execFile)('python3', ['-c', SURFACE], { cwd: PYTHON, env })
  const python = JSON.parse(stdout) as string[]
  const typescript = (await methodsOfTypescript()).map(inPython)
  assert.deepEqual(python.filter((each) => !(each in PYTHON_ALONE)), [...new Set(typescript)].toSorted()) // prettier-ignore
})
