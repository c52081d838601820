// Needs its own installation, whose machines reach a fake internet.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, test } from 'node:test'
import type { GitStatus } from '../../contract/schemas/cell/git.ts'
import { type Client, createClient, detailsOf, type OpenedWorkspace, refusalOf } from '../support/client.ts'
import { INTERNET_ADDRESS, type Internet, openInternet } from '../support/internet.ts'
import { type Service, startService } from '../support/service.ts'
import { patience } from '../support/patience.ts'

const TOKEN = 's3cret-token'
const BASIC = Buffer.from(`anyone:${TOKEN}`).toString('base64')
const SERVER = `https://${INTERNET_ADDRESS}`
let internet: Internet
let service: Service
let client: Client
let workspace: OpenedWorkspace
let commits: string[]

before(async () => {
  internet = await openInternet()
  commits = makeRepository(internet.repositories)
  service = await startService({ settings: { uplink: internet.uplink } })
  client = createClient(service.base_url, service.api_key)
  workspace = await client.open('git')
  const put = await client.tool(workspace, '/files?path=/usr/local/share/ca-certificates/test.crt', { method: 'PUT', bytes: internet.ca })
  assert.equal(put.status, 200)
  assert.equal((await client.run(workspace, ['sudo', 'update-ca-certificates'])).exit.exit_code, 0)
})
after(async () => {
  await service.stop()
  await internet.close()
})

/** @returns the commits, newest first */
function makeRepository(folder: string): string[] {
  const work = path.join(folder, 'work')
  mkdirSync(work)
  const git = (...args: string[]) =>
    execFileSync('git', ['-C', work, '-c', 'user.name=T', '-c', 'user.email=t@test', ...args], {
      encoding: 'utf8',
      timeout: patience(120_000),
    })
  git('init', '--quiet', '--initial-branch=main')
  for (const n of [1, 2, 3]) {
    writeFileSync(path.join(work, 'file.txt'), `${n}\n`)
    git('add', '.')
    git('commit', '--quiet', '--message', `number ${n}`)
  }
  const log = git('log', '--format=%H').trim().split('\n')
  git('checkout', '--quiet', '-b', 'side', 'HEAD~1')
  git('checkout', '--quiet', 'main')
  execFileSync('git', ['clone', '--quiet', '--bare', work, path.join(folder, 'project.git')], { timeout: patience(120_000) })
  return log
}

const post = <T = Record<string, unknown>>(verb: string, json: object, headers: Record<string, string> = {}) =>
  client.tool<T>(workspace, `/git/${verb}`, { json, headers })
const status = (at: string) => client.tool<GitStatus>(workspace, `/git/status?path=${encodeURIComponent(at)}`)
const shell = async (script: string) => (await client.run(workspace, ['bash', '-c', script])).stdout

test('a clone over HTTPS has the default branch with its whole history, owned by the user', async () => {
  const { status, body } = await post('clone', { url: `${SERVER}/project.git`, path: '/home/user/a' })
  assert.deepEqual([status, body], [201, { path: '/home/user/a', branch: 'main', commit: commits[0] }])
  assert.equal(await shell('cd /home/user/a && cat file.txt && git rev-list --count HEAD && stat -c %U .git/config'), '3\n3\nuser\n')
  assert.equal(await shell('ls /home/user/a/.git/hooks 2>/dev/null'), '')
})

test('depth and branch are passed to git', async () => {
  const asked = { url: `${SERVER}/project.git`, path: '/home/user/deep/er', branch: 'side', depth: 1 }
  const { status, body } = await post('clone', asked)
  assert.deepEqual([status, body], [201, { path: '/home/user/deep/er', branch: 'side', commit: commits[1] }])
  assert.equal(await shell('git -C /home/user/deep/er rev-list --count HEAD'), '1\n')
  assert.deepEqual(refusalOf(await post('clone', { ...asked, path: '/home/user/x', branch: 'nowhere' })), [409, 'conflict', 'git_failed'])
})

test('credentials reach only the server: no file, command line or log holds them', async () => {
  const url = `${SERVER}/private/project.git`
  assert.deepEqual(refusalOf(await post('clone', { url, path: '/home/user/p' })), [409, 'conflict', 'git_authentication_failed'])
  const wrong = { 'x-git-authorization': 'Bearer wrong' }
  assert.deepEqual(refusalOf(await post('clone', { url, path: '/home/user/p' }, wrong)), [409, 'conflict', 'git_authentication_failed'])
  const headers = { 'x-git-authorization': `Basic ${BASIC}` }
  assert.equal((await post('clone', { url, path: '/home/user/p' }, headers)).status, 201)
  await internet.visited(({ authorization }) => authorization === `Basic ${BASIC}`)
  const { body: me } = await client.api<{ api_key: { project_id: string } }>('/v1/me')
  const secret = { name: 'LOGIN', value: `Basic ${BASIC}`, allowed_tools: ['git'] }
  assert.equal((await client.api(`/v1/projects/${me.api_key.project_id}/secrets`, { json: secret })).status, 201)
  assert.equal((await post('clone', { url, path: '/home/user/q', authorization_secret: 'LOGIN' })).status, 201)
  const search = `sudo grep -rlE '${TOKEN}|${BASIC}' /home /root /tmp /var /etc /run 2>/dev/null; echo searched`
  // The searched files hold no command line of the search.
  assert.equal(await shell(search), 'searched\n')
  assert.match(await shell('cat /home/user/p/.git/config'), /url = https:\/\/203\.0\.113\.10\/private\/project\.git\n/)
  for (const name of readdirSync(path.join(service.data_dir, 'logs'))) {
    const log = readFileSync(path.join(service.data_dir, 'logs', name), 'utf8')
    assert.ok(!log.includes(BASIC) && !log.includes(TOKEN), name)
  }
})

test('no command line shows the credentials of a running git, which its deadline ends with its directory removed', async () => {
  const asked = { url: `${SERVER}/slow/project.git`, path: '/home/user/slow', timeout_ms: 8_000 } // the check below comes before this timeout
  const cloning = post('clone', asked, { 'x-git-authorization': `Basic ${BASIC}` })
  const visit = await internet.visited(({ url }) => url.startsWith('/slow/'))
  assert.equal(visit.authorization, `Basic ${BASIC}`)
  const lines = await shell(`cat /proc/[0-9]*/cmdline | tr '\\0' ' '`)
  assert.match(lines, /git clone .*203\.0\.113\.10\/slow/)
  assert.ok(!lines.includes(BASIC) && !lines.includes(TOKEN))
  assert.deepEqual(refusalOf(await cloning), [504, 'timeout', undefined])
  const gone =
    'for i in $(seq 300); do pgrep git >/dev/null || break; sleep 0.1; done; pgrep -c git; ls -d /home/user/slow 2>/dev/null; true'
  assert.equal(await shell(gone), '0\n')
})

test('git with credentials follows no redirect, so that no other host gets them', async () => {
  const headers = { 'x-git-authorization': `Basic ${BASIC}` }
  const asked = { url: `${SERVER}/elsewhere/project.git`, path: '/home/user/r' }
  assert.deepEqual(refusalOf(await post('clone', asked, headers)), [409, 'conflict', 'git_failed'])
  assert.equal((await post('clone', asked)).status, 201)
  await internet.visited(({ host }) => host === '203.0.113.11')
  const there = internet.visits.filter(({ host }) => host === '203.0.113.11')
  assert.ok(there.length > 0 && there.every(({ authorization }) => authorization === null))
})

test('a clone to an existing or unwritable target and one from an unreachable address are refused', async () => {
  const url = `${SERVER}/project.git`
  assert.deepEqual(refusalOf(await post('clone', { url, path: '/home/user/a' })), [409, 'conflict', 'already_exists'])
  assert.deepEqual(refusalOf(await post('clone', { url, path: '/root/a' })), [409, 'conflict', 'git_failed'])
  assert.deepEqual(refusalOf(await post('clone', { url: `${SERVER}/none.git`, path: '/home/user/n' })), [409, 'conflict', 'git_failed'])
  const metadata = await post('clone', { url: 'https://169.254.169.254/x.git', path: '/home/user/m', timeout_ms: 3000 })
  assert.match(refusalOf(metadata).join(), /^(409,conflict,git_failed|504,timeout,)$/)
})

test('a status shows each file by index and working tree', async () => {
  await shell(`cd /home/user/a && git config user.name W && git config user.email w@test && seq 50 > long && git add long && git commit -qm long \\
    && git mv long 'moved to' && echo 4 > file.txt && echo new > "$(printf 'odd\\nname')" && echo staged > s && git add s && echo more >> s`)
  const { status: code, body } = await status('/home/user/a')
  const head = (await shell('git -C /home/user/a rev-parse HEAD')).trim()
  assert.equal(code, 200)
  assert.deepEqual(body, {
    root: '/home/user/a',
    branch: 'main',
    head,
    upstream: 'origin/main',
    ahead: 1,
    behind: 0,
    clean: false,
    files: [
      { path: 'file.txt', index: 'unmodified', worktree: 'modified', renamed_from: null, conflicted: false },
      { path: 'moved to', index: 'renamed', worktree: 'unmodified', renamed_from: 'long', conflicted: false },
      { path: 's', index: 'added', worktree: 'modified', renamed_from: null, conflicted: false },
      { path: 'odd\nname', index: 'untracked', worktree: 'untracked', renamed_from: null, conflicted: false },
    ],
    truncated: false,
  })
})

test('a commit of paths takes only those, one without paths takes everything, and a further one has nothing to commit', async () => {
  const author = { name: 'Ada Ä', email: 'ada@test' }
  const first = await post<{ commit: string }>('commit', { path: '/home/user/a', message: 'one\n\nbody', paths: ['file.txt'], author })
  assert.equal(first.status, 201)
  assert.equal(
    await shell(`git -C /home/user/a log -1 --format='%H %an %ae %cn %s|%b' --name-only`),
    `${first.body.commit} Ada Ä ada@test Ada Ä one|body\n\n\nfile.txt\nmoved to\ns\n`.replace('moved to', 'moved to'),
  )
  const second = await post<{ commit: string; branch: string }>('commit', { path: '/home/user/a', message: 'two' })
  assert.deepEqual([second.status, second.body.branch], [201, 'main'])
  const now = (await status('/home/user/a')).body
  assert.deepEqual([now.clean, now.head, now.ahead], [true, second.body.commit, 3])
  assert.deepEqual(refusalOf(await post('commit', { path: '/home/user/a', message: 'three' })), [409, 'conflict', 'nothing_to_commit'])
})

test('a conflict is reported as a conflict', async () => {
  await shell(`cd /home/user && git init -qb main c && cd c && git config user.name W && git config user.email w@test
    echo a > f && git add f && git commit -qm 1 && git checkout -qb other && echo b > f && git commit -qam 2
    git checkout -q main && echo c > f && git commit -qam 3; git merge -q other`)
  const { body } = await status('/home/user/c')
  assert.deepEqual(body.files, [{ path: 'f', index: 'unmerged', worktree: 'unmerged', renamed_from: null, conflicted: true }])
  assert.deepEqual([body.upstream, body.ahead, body.behind, body.clean], [null, null, null, false])
})

test('a path without a repository, a file and a missing path are refused, and so is a commit without an author', async () => {
  assert.deepEqual(refusalOf(await status('/home/user')), [409, 'conflict', 'not_a_repository'])
  assert.deepEqual(refusalOf(await status('/etc/passwd')), [409, 'conflict', 'not_a_directory'])
  assert.deepEqual(refusalOf(await status('/nowhere')), [404, 'not_found', 'path_not_found'])
  assert.deepEqual(refusalOf(await post('commit', { path: '/home/user', message: 'x' })), [409, 'conflict', 'not_a_repository'])
  await shell('git init -q /home/user/new && echo x > /home/user/new/x')
  assert.deepEqual((await status('/home/user/new')).body.head, null)
  assert.deepEqual(refusalOf(await post('commit', { path: '/home/user/new', message: 'x' })), [422, 'validation_failed', undefined])
  assert.deepEqual(refusalOf(await post('commit', { path: '/home/user/new', message: 'x', paths: ['-A'] })), [
    404,
    'not_found',
    'path_not_found',
  ])
  assert.deepEqual(refusalOf(await post('commit', { path: '/home/user/new', message: 'x', paths: ['../../../etc'] })), [
    422,
    'validation_failed',
    'invalid_path',
  ])
})

test('programs that a repository configures do not run', async () => {
  await shell(`cd /home/user/new && printf '#!/bin/sh\\ntouch /home/user/ran\\n' > .git/hooks/pre-commit && chmod +x .git/hooks/pre-commit
    cp .git/hooks/pre-commit .git/hooks/post-commit; git config core.fsmonitor /home/user/new/.git/hooks/pre-commit`)
  assert.equal((await status('/home/user/new')).status, 200)
  const author = { name: 'A', email: 'a@test' }
  assert.equal((await post('commit', { path: '/home/user/new', message: 'x', author })).status, 201)
  assert.equal(await shell('ls /home/user/ran 2>/dev/null; true'), '')
})

test('a fake git in a guest affects only its own workspace, and a git that hangs is ended', async () => {
  const own = await client.open('false-git')
  const lie = async (script: string) =>
    client.run(own, ['sudo', 'sh', '-c', `printf '%s' "$1" > /usr/local/bin/git && chmod 755 /usr/local/bin/git`, 'sh', script])
  const look = async () => refusalOf(await client.tool(own, '/git/status?path=/home/user'))
  await lie('#!/bin/sh\necho /home/user; head -c 100000 /dev/urandom')
  assert.deepEqual(await look(), [409, 'conflict', 'git_failed'])
  await lie('#!/bin/sh\nexec yes')
  assert.deepEqual(await look(), [409, 'conflict', 'git_failed'])
  await lie('#!/bin/sh\nkill -9 $$')
  assert.deepEqual(await look(), [409, 'conflict', 'git_failed'])
  await client.run(own, ['sudo', 'rm', '-f', '/usr/local/bin/git', '/usr/bin/git'])
  const refused = await client.tool(own, '/git/status?path=/home/user')
  assert.deepEqual(refusalOf(refused), [409, 'conflict', 'guest_feature_unavailable'])
  assert.equal(detailsOf(refused)['feature'], 'git')
})
