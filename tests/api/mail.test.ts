import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { randomUUID } from 'node:crypto'
import { claimMail } from '../../service/api/records/mail/store.ts'
import { freshDatabase } from '../support/postgres.ts'
import PostalMime from 'postal-mime'
import { letterOf } from '../../service/api/records/mail/letters.ts'
import { MAIL_KINDS } from '../../contract/states/mail.ts'
import { armFailpoint } from '../../service/lib/failpoints.ts'
import { openMailbox } from '../support/mailbox.ts'
import { until } from '../support/processes.ts'
import { signInWorld } from './auth-support.ts'
import { world, type World } from './support.ts'

const from = 'Berth <berth@mail.test>'
const register = (w: World, email: string) => w.post('/v1/auth/register', { email, password: 'a long enough password' }, { as: null })
const rows = (w: World) => w.database.superuser.selectFrom('mails').selectAll().orderBy('id').execute()

test('an unreachable mail server delays mail and nothing else', async () => {
  const closed = createServer()
  await new Promise<void>((resolve) => closed.listen(0, '127.0.0.1', resolve))
  const { port } = closed.address() as AddressInfo
  await new Promise((resolve) => closed.close(resolve))
  await using w = await world({ mail: { smtp_url: `smtp+insecure://127.0.0.1:${port}`, from, directory: '' } })
  assert.equal((await register(w, 'waits@example.com')).status, 202)
  await until('a try fails', 60_000, async () => (await rows(w))[0]?.last_error !== null)
  const [waiting] = await rows(w)
  assert.deepEqual([waiting?.sent_at, waiting?.given_up_at], [null, null])
})

test('mail that failed is tried again later, and then arrives', async () => {
  let refused = 0
  await using box = await openMailbox({
    onMailFrom(_address, _session, done) {
      refused += 1
      done(refused === 1 ? Object.assign(new Error('Come back later'), { responseCode: 451 }) : null)
    },
  })
  await using w = await world({ mail: { smtp_url: box.url, from, directory: '' } })
  await register(w, 'retried@example.com')
  await until('the first try is refused', 60_000, async () => (await rows(w))[0]?.last_error?.includes('Come back later') === true)
  w.clock.ahead_ms += 60_000
  await box.mailTo('retried@example.com', /Verify/)
  assert.equal((await rows(w))[0]?.tries, 2)
})

test('mail to a recipient that the server does not know fails at once', async () => {
  await using box = await openMailbox({
    onRcptTo: (_address, _session, done) => done(Object.assign(new Error('No such user'), { responseCode: 550 })),
  })
  await using w = await world({ mail: { smtp_url: box.url, from, directory: '' } })
  await register(w, 'unknown@example.com')
  await until('it is given up', 60_000, async () => (await rows(w))[0]?.given_up_at !== null)
})

test('a server with an untrusted certificate, and one without TLS, get no mail', async () => {
  await using secure = await openMailbox({ secure: true }, 'smtps')
  await using plain = await openMailbox({ disabledCommands: ['STARTTLS'] }, 'smtp')
  for (const box of [secure, plain]) {
    await using w = await world({ mail: { smtp_url: box.url, from, directory: '' } })
    await register(w, 'tls@example.com')
    await until('a try fails', 60_000, async () => (await rows(w))[0]?.last_error !== null)
    assert.deepEqual(box.mails, [])
  }
})

test('a silent mail server fails the try, and calls are answered meanwhile', async () => {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => sockets.add(socket.on('error', () => undefined)))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  {
    await using w = await world({ mail: { smtp_url: `smtp+insecure://127.0.0.1:${port}`, from, directory: '' } })
    await register(w, 'hangs@example.com')
    await until('it is held', 60_000, () => sockets.size > 0)
    assert.equal((await register(w, 'beside@example.com')).status, 202)
    assert.deepEqual((await rows(w)).map(({ email, tries, last_error }) => [email, tries, last_error]), [
      ['hangs@example.com', 1, null],
      ['beside@example.com', 0, null],
    ]) // prettier-ignore
    await until('the try fails', 120_000, async () => (await rows(w))[0]?.last_error !== null)
    const [waiting] = await rows(w)
    assert.deepEqual([waiting?.sent_at, waiting?.given_up_at], [null, null])
  }
  for (const socket of sockets) socket.destroy()
  await new Promise((resolve) => server.close(resolve))
})

test('a mail server that answers nonsense fails the try', async () => {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined).write('<html>nonsense</html>\r\n')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  {
    await using w = await world({ mail: { smtp_url: `smtp+insecure://127.0.0.1:${port}`, from, directory: '' } })
    await register(w, 'nonsense@example.com')
    await until('a try fails', 60_000, async () => (await rows(w))[0]?.last_error !== null)
  }
  for (const socket of sockets) socket.destroy()
  await new Promise((resolve) => server.close(resolve))
})

for (const point of ['mail.M1', 'mail.M2'] as const) {
  test(`a sender that ends at ${point} loses no mail: it is sent again, with the same link`, async () => {
    await using s = await signInWorld()
    let hits = 0
    {
      using _ = armFailpoint(point, () => {
        hits += 1
        throw new Error('ended here')
      })
      await register(s.w, 'again@example.com')
      await until('it is hit', 60_000, () => hits > 0)
      await until('the try is over', 60_000, async () => (await rows(s.w))[0]?.last_error !== null)
    }
    s.w.clock.ahead_ms += 60_000
    await until('it is sent', 60_000, async () => (await rows(s.w))[0]?.sent_at !== null)
    const tokens = s.box.mails.map(({ text }) => /#token=(\S+)/.exec(text ?? '')?.[1])
    assert.deepEqual([new Set(tokens).size, tokens.length], [1, point === 'mail.M1' ? 1 : 2])
    assert.equal((await s.auth('verify-email', { token: tokens[0] })).status, 204)
  })
}

test('two senders send each mail once', async () => {
  await using s = await signInWorld()
  await s.w.second()
  const emails = Array.from({ length: 20 }, (_, n) => `many-${n}@example.com`)
  await Promise.all(emails.map((email) => register(s.w, email)))
  for (const email of emails) await s.box.mailTo(email, /Verify/)
  assert.equal(s.box.mails.length, emails.length)
})

test('without a server each mail is a file that only its owner can read', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'berth-mail-'))
  try {
    await using w = await world({ mail: { smtp_url: '', from, directory } })
    await register(w, 'file@example.com')
    await until('the file is there', 60_000, () => readdirSync(directory).some((name) => name.endsWith('.eml')))
    const [name = ''] = readdirSync(directory)
    const mail = await PostalMime.parse(readFileSync(join(directory, name)))
    assert.deepEqual([mail.to?.[0]?.address, mail.from?.address, mail.html], ['file@example.com', 'berth@mail.test', undefined])
    assert.match(mail.text ?? '', /#token=/)
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
})

test("every mail is plain and short, and no caller's text reaches its headers", () => {
  for (const kind of MAIL_KINDS) {
    const alert = { subject: 'spend_cap', threshold_percent: 80, resets_at: new Date(0) } as const
    const facts = {
      base_url: 'http://api.test',
      token: 'x'.repeat(43),
      organization: 'Evil\r\nBcc: all@example.com',
      role: 'member',
      alert,
    }
    const { subject, text } = letterOf(kind, 'a@example.com', facts)
    assert.match(subject, /^[\x20-\x7e]{5,60}$/, kind)
    assert.ok(text.length < 700 && text.split('\n\n').length <= 4, kind)
    for (const [link] of text.matchAll(/https?:\S+/g)) assert.ok(link.startsWith('http://api.test'), link)
  }
})

test('mail that a person waits for is sent before invitations, however many an organization has sent', async () => {
  await using database = await freshDatabase()
  const at = (seconds: number) => new Date(1_700_000_000_000 + seconds * 1000)
  const mail = (seconds: number, kind: 'invitation' | 'reset_password') => ({
    ...{ id: randomUUID(), kind, email: `${kind}-${seconds}@example.com`, created_at: at(seconds), next_try_at: at(seconds) },
  })
  await database.superuser
    .insertInto('mails')
    .values([mail(1, 'invitation'), mail(2, 'invitation'), mail(3, 'reset_password')])
    .execute()
  const taken = []
  for (let n = 0; n < 3; n++) taken.push((await claimMail(database.api, at(10), at(100)))?.email)
  assert.deepEqual(taken, ['reset_password-3@example.com', 'invitation-1@example.com', 'invitation-2@example.com'])
})
