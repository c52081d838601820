import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { NO_PYTHON, runCommands, runPython, runPythonPage, runTypescript } from '../support/client-guides.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'
import { patience } from '../support/patience.ts'

let service: SharedService
before(async () => {
  service = await sharedService()
})
after(() => service.stop())
const where = () => ({ url: service.base_url, api_key: service.api_key })

test('the samples of docs/guides/typescript.md print what it says', { timeout: patience(240_000) }, async () => {
  const { prints, printed } = await runTypescript('docs/guides/typescript.md', where())
  assert.equal(printed, prints)
})

test('the samples of docs/guides/python.md print what it says', { skip: NO_PYTHON, timeout: patience(240_000) }, async () => {
  const { prints, printed } = await runPythonPage('docs/guides/python.md', where())
  assert.equal(printed, prints)
})

const TERMINAL = `
import time
from berth import Berth
with Berth() as berth, berth.open("python-terminal", template="base") as ws:
    ws.files.write("/home/user/large", b"berth" * (8 << 18))
    print(sum(map(len, ws.files.stream("/home/user/large"))))
    with ws.shell(["cat"]) as shell:
        shell.write("hello\\n")
        shown = ""
        for chunk in shell:
            shown += chunk.text
            if shown.count("hello") == 2:
                break
        shell.detach()
        again = ws.terminal(shell.id, offset=7)
        for chunk in again:
            print(chunk.text.strip())
            break
    for _ in range(600):  # it was told to end, and has a moment for it
        if shell.status()["state"] != "running":
            break
        time.sleep(0.1)
    print(shell.status()["state"])
    ws.delete()
`
test('the Python client uses a terminal and a large file of a machine', { skip: NO_PYTHON, timeout: patience(240_000) }, async () => {
  const [bytes, shown, state] = (await runPython(TERMINAL, where())).split('\n')
  assert.deepEqual([bytes, shown, state], [String(10 << 20), 'hello', 'exited'])
})

test('the commands of docs/guides/cli.md print what it says', { timeout: patience(240_000) }, async () => {
  const { prints, printed } = await runCommands('docs/guides/cli.md', where())
  assert.equal(printed, prints)
})

test('the three-line example of README.md runs a command', { timeout: patience(240_000) }, async () => {
  assert.match(readFileSync(path.resolve(import.meta.dirname, '../../README.md'), 'utf8'), /from '@berth\/sdk'/)
  assert.equal((await runTypescript('README.md', where())).printed, '42\n')
})
