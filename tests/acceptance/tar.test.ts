import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { type Client, createClient, type OpenedWorkspace, refusalOf } from '../support/client.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'
import { entryOf, tarOf } from '../support/tars.ts'

let service: SharedService
let client: Client
let workspace: OpenedWorkspace
before(async () => {
  service = await sharedService()
  client = createClient(service.base_url, service.api_key)
  workspace = await client.open('tars')
})
after(async () => {
  await service.stop()
})

const put = (path: string, bytes: Buffer, query = '') => client.tool(workspace, `/files/tar?path=${path}${query}`, { method: 'PUT', bytes })
const sh = async (script: string) => {
  const { exit, stderr, stdout } = await client.run(workspace, ['bash', '-ec', script])
  assert.equal(exit.exit_code, 0, stderr)
  return stdout
}

test('a directory downloaded and uploaded as a tar keeps modes, links, times and empty directories', async () => {
  await sh(`mkdir -p ~/out/sub/hollow && cd ~/out && echo one > one && chmod 750 one && ln -s sub/two link && echo two > sub/two
    head -c 3000000 /dev/urandom > large && ln one hard && touch -d '2020-01-01 00:00:00.5' sub/two && printf x > "é $(printf 'n%.0s' {1..200})"`)
  const { status, headers, bytes } = await client.tool(workspace, '/files/tar?path=/home/user/out')
  assert.deepEqual([status, headers['content-type']], [200, 'application/x-tar'])
  const { status: written, body } = await put('/home/user/back', bytes, '&create_parents=true')
  assert.deepEqual([written, body], [200, { path: '/home/user/back', entries: 8, bytes: 3_000_000 + 4 * 3 + 1, durable: true }])
  await sh(`diff -r --no-dereference ~/out ~/back
    list() { (cd "$1" && find . -mindepth 1 -printf '%P %y %m %T@ %l %u\\n' | sed 's/ d \\([0-7]*\\) [0-9.]*/ d \\1/' | cut -c1-240 | sort); }
    diff <(list ~/out | sed 's/\\(\\.[0-9]\\{3\\}\\)[0-9]*/\\1/') <(list ~/back | sed 's/\\(\\.[0-9]\\{3\\}\\)[0-9]*/\\1/')`)
  assert.equal(await sh('ls -A ~/back | grep -c berth || true'), '0\n')
})

test('a sparse file transfers only its data and keeps its holes', async () => {
  await sh(`mkdir -p ~/holes && cd ~/holes && truncate -s 50G disk && printf begin | dd of=disk conv=notrunc status=none
    head -c 3000000 /dev/urandom | dd of=disk bs=1M iflag=fullblock oflag=seek_bytes seek=41943040000 conv=notrunc status=none`)
  const { bytes } = await client.tool(workspace, '/files/tar?path=/home/user/holes')
  assert.ok(bytes.length > 3_000_000 && bytes.length < 4_000_000, `${bytes.length} bytes`)
  const folder = mkdtempSync(path.join(tmpdir(), 'holes-'))
  try {
    execFileSync('tar', ['-xf', '-', '--no-same-owner', '-C', folder], { input: bytes })
    const { size, blocks } = statSync(path.join(folder, 'disk'))
    assert.deepEqual([size, blocks * 512 < 4_000_000], [50 * 2 ** 30, true])
    const again = execFileSync('tar', ['-c', '--sparse', '--format=posix', '-C', folder, 'disk'], { maxBuffer: 1 << 24 })
    assert.equal((await put('/home/user/returned', again, '&create_parents=true')).status, 200)
  } finally {
    rmSync(folder, { recursive: true })
  }
  const digests = await sh(`for each in holes returned; do cd ~/$each; stat -c %s disk; du -m disk | cut -f1
    head -c 1M disk | sha256sum; tail -c +41943040001 disk | head -c 4M | sha256sum; done`)
  const lines = digests.trim().split('\n')
  assert.deepEqual(lines.slice(0, 4), lines.slice(4))
  assert.equal(lines[0], String(50 * 2 ** 30))
  assert.ok(Number(lines[1]) <= 4, `${lines[1]} MiB`)
})

test('a tar with an entry outside its directory is refused, and nothing of it is unpacked', async () => {
  await sh('mkdir -p ~/safe && ln -s /etc ~/safe/etc')
  for (const entry of [
    entryOf('../x', 'x'),
    entryOf('/tmp/x', 'x'),
    entryOf('l', '', { type: '2', target: '/etc' }),
    entryOf('d', '', { type: '3' }),
  ])
    assert.deepEqual(refusalOf(await put('/home/user/safe', tarOf(entryOf('good', 'good'), entry))), [
      422,
      'validation_failed',
      'invalid_path',
    ])
  const through = await put('/home/user/safe', tarOf(entryOf('good', 'good'), entryOf('etc/x', 'x')))
  assert.deepEqual(refusalOf(through), [409, 'conflict', 'not_a_directory'])
  const cut = await put('/home/user/safe', tarOf(entryOf('good', 'x'.repeat(2000))).subarray(0, 1500))
  assert.deepEqual(refusalOf(cut), [422, 'validation_failed', undefined])
  assert.equal(await sh('ls -A ~/safe; ls /tmp/x /etc/x 2>/dev/null || true'), 'etc\n')
})
