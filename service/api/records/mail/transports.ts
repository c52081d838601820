import { mkdir, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createTransport } from 'nodemailer'
import { LIMITS } from '../../../../contract/limits.ts'
import type { MailMessage } from './letters.ts'

/** The outcome of a try can be unknown, so the same id may be sent twice. */
export interface Transport {
  send(id: string, letter: MailMessage): Promise<void>
  close(): void
}

export interface MailConfig {
  /** `smtps://`: TLS. `smtp://`: STARTTLS. `smtp+insecure://`: no TLS. Empty: files. */
  smtp_url: string
  from: string
  directory: string
}

const { send_seconds_max } = LIMITS.mail

export function openTransport(config: MailConfig): Transport {
  return config.smtp_url === '' ? openFolder(config) : openSmtp(config)
}

function openSmtp({ smtp_url, from }: MailConfig): Transport {
  const url = new URL(smtp_url.replace(/^smtp\+insecure:/, 'http:').replace(/^smtps?:/, 'http:'))
  const secure = smtp_url.startsWith('smtps:')
  const plain = smtp_url.startsWith('smtp+insecure:')
  const user = decodeURIComponent(url.username)
  const transport = createTransport({
    host: url.hostname.replace(/^\[(.*)\]$/, '$1'),
    port: url.port === '' ? (secure ? 465 : 587) : Number(url.port),
    secure,
    requireTLS: !secure && !plain,
    ignoreTLS: plain,
    ...(user === '' ? {} : { auth: { user, pass: decodeURIComponent(url.password) } }),
    connectionTimeout: 10_000,
    greetingTimeout: 10_000,
    socketTimeout: (send_seconds_max * 1000) / 2,
    dnsTimeout: 10_000,
    disableFileAccess: true,
    disableUrlAccess: true,
  })
  return {
    async send(id, letter) {
      const refused = Promise.withResolvers<never>()
      const late = setTimeout(() => refused.reject(new Error('the mail server took too long')), send_seconds_max * 1000)
      try {
        await Promise.race([transport.sendMail({ from, ...letter, messageId: messageId(id, from) }), refused.promise])
      } finally {
        clearTimeout(late)
      }
    },
    close: () => transport.close(),
  }
}

function openFolder({ directory, from }: MailConfig): Transport {
  const composer = createTransport({ streamTransport: true, buffer: true, disableFileAccess: true, disableUrlAccess: true })
  return {
    async send(id, letter) {
      const { message } = await composer.sendMail({ from, ...letter, messageId: messageId(id, from) })
      await mkdir(directory, { recursive: true, mode: 0o700 })
      const path = join(directory, `${id}.eml`)
      await writeFile(`${path}.new`, message as Buffer, { mode: 0o600 })
      await rename(`${path}.new`, path)
    },
    close: () => composer.close(),
  }
}

/** Every try uses the same id, so that servers and mail programs recognize a repeat. */
function messageId(id: string, from: string): string {
  return `<${id}@${/@([^>\s]+)/.exec(from)?.[1] ?? 'localhost'}>`
}
