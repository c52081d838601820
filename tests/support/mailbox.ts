import type { AddressInfo } from 'node:net'
import PostalMime, { type Email } from 'postal-mime'
import { SMTPServer, type SMTPServerOptions } from 'smtp-server'
import { until } from './processes.ts'

export interface Mailbox extends AsyncDisposable {
  url: string
  mails: Email[]
  mailTo(address: string, subject: RegExp): Promise<Email>
  tokenTo(address: string, subject: RegExp): Promise<string>
}

export async function openMailbox(options: SMTPServerOptions = {}, scheme = 'smtp+insecure'): Promise<Mailbox> {
  const mails: Email[] = []
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: scheme === 'smtp+insecure' ? ['STARTTLS'] : [],
    onData(stream, _session, done) {
      const chunks: Buffer[] = []
      stream.on('data', (chunk: Buffer) => chunks.push(chunk))
      stream.on('end', () => {
        PostalMime.parse(Buffer.concat(chunks)).then(
          (mail) => {
            mails.push(mail)
            done()
          },
          (error: unknown) => done(error as Error),
        )
      })
    },
    ...options,
  })
  server.on('error', () => undefined) // a client may disconnect at any time
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.server.address() as AddressInfo
  const find = (address: string, subject: RegExp) =>
    mails.findLast((mail) => mail.to?.some((to) => to.address === address) === true && subject.test(mail.subject ?? ''))
  const mailTo = async (address: string, subject: RegExp) => {
    await until(`a mail to ${address} arrives`, 60_000, async () => find(address, subject) !== undefined)
    const mail = find(address, subject)
    if (mail === undefined) throw new Error('it went away')
    return mail
  }
  return {
    url: `${scheme}://127.0.0.1:${port}`,
    mails,
    mailTo,
    async tokenTo(address, subject) {
      const { text = '' } = await mailTo(address, subject)
      return /#token=([A-Za-z0-9_-]+)/.exec(text)?.[1] ?? ''
    },
    async [Symbol.asyncDispose]() {
      await new Promise<void>((resolve) => server.close(resolve))
    },
  }
}
