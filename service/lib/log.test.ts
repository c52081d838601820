import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { test } from 'node:test'
import { openLog } from './log.ts'
import { patience } from '../../tests/support/patience.ts'

const HERE = new URL('./log.ts', import.meta.url).href

test('a process with a full log continues, and counts the lost lines', () => {
  const full = openSync('/dev/full', 'w')
  const program = `
    import { openLog, surviveFullOutput } from ${JSON.stringify(HERE)}
    surviveFullOutput()
    const log = openLog({ level: 'info', base: {} })
    for (let i = 0; i < 3; i++) log.logger.info('a line')
    process.stdout.write('plain')
    process.stderr.write('plain')
    setTimeout(() => process.exit(40 + log.dropped()), 50)`
  const { status } = spawnSync(process.execPath, ['--input-type=module', '--disable-warning=ExperimentalWarning', '-e', program], {
    stdio: ['ignore', full, full],
    timeout: patience(60_000),
  })
  closeSync(full)
  assert.equal(status, 43)
})

test('after a torn line the next one begins a new line, and a log line reports the lost ones', () => {
  let [room, out] = [20, '']
  const write = (bytes: Buffer) => {
    const taken = bytes.subarray(0, room)
    room -= taken.length
    if (taken.length === 0) throw new Error('ENOSPC')
    out += taken.toString()
    return taken.length
  }
  const { logger, dropped } = openLog({ level: 'info', base: {}, write })
  logger.info('torn')
  logger.info('lost')
  room = Infinity
  logger.info('whole')
  const [, ...lines] = out.trimEnd().split('\n')
  const said = lines.map((line) => JSON.parse(line) as { msg: string; dropped?: number })
  assert.deepEqual([dropped(), said.map(({ msg }) => msg), said[1]?.dropped], [2, ['whole', 'lines of the log could not be written'], 2])
})
