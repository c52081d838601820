import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const fileAt = (path) => fileURLToPath(new URL(path, import.meta.url))
const nowhere = { socket: '/nonexistent/socket', folder: '/nonexistent' }
const places = {
  ...{ database_url: 'postgres://nobody@127.0.0.1:9/none', embedded: false, instance: 'none', data_reserve_bytes: 0, cell_name: 'none' },
  ...{ data_dir: tmpdir(), run_dir: nowhere.folder, hostd_socket: nowhere.socket, slots: 1, shells: 1, mail_directory: '' },
  ...{ api_ops: { host: '127.0.0.1', port: 9 }, cell_ops: { host: '127.0.0.1', port: 9 } },
}
const COMMANDS = {
  'npm run admin -- config check': [fileAt('../admin.mjs'), 'config', 'check'],
  "the service's own part of npm run admin": ['--disable-warning=ExperimentalWarning', fileAt('../../service/admin/main.ts'), 'doctor'],
}

for (const [name, words] of Object.entries(COMMANDS))
  test(`${name} ends without a word when the reader of its output has gone`, { timeout: 60_000 }, async () => {
    const admin = name.includes('own part') ? { BERTH_ADMIN: JSON.stringify({ doctor: places }) } : {}
    const env = { PATH: process.env.PATH, ...admin }
    const child = spawn(process.execPath, words, { env, stdio: ['ignore', 'pipe', 'pipe'] })
    child.stdout.destroy()
    let stderr = ''
    child.stderr.on('data', (bytes) => (stderr += bytes))
    const [code] = await once(child, 'close')
    assert.deepEqual([code, stderr], [0, ''])
  })
