import { openMailbox, type Mailbox } from '../support/mailbox.ts'
import { world, type Answer, type World, type WorldOptions } from './support.ts'

export interface SignInWorld extends AsyncDisposable {
  w: World
  box: Mailbox
  auth(route: string, body?: unknown, as?: string | null): Promise<Answer>
  account(email: string, password?: string): Promise<void>
  signIn(email: string, password?: string): Promise<string>
}

export const PASSPHRASE = 'a long enough password'

export async function signInWorld(given: WorldOptions = {}): Promise<SignInWorld> {
  const box = await openMailbox()
  const w = await world({ mail: { smtp_url: box.url, from: 'Berth <berth@mail.test>', directory: '/nonexistent' }, ...given })
  const auth: SignInWorld['auth'] = (route, body, as = null) => w.post(`/v1/auth/${route}`, body, { as })
  return {
    w,
    box,
    auth,
    async account(email, password = PASSPHRASE) {
      const registered = await auth('register', { email, password })
      if (registered.status !== 202) throw new Error(JSON.stringify(registered.body))
      await auth('verify-email', { token: await box.tokenTo(email, /Verify/) })
    },
    async signIn(email, password = PASSPHRASE) {
      const signed = await auth('login', { email, password })
      if (signed.status !== 200) throw new Error(JSON.stringify(signed.body))
      return signed.body.session_token
    },
    async [Symbol.asyncDispose]() {
      await w[Symbol.asyncDispose]()
      await box[Symbol.asyncDispose]()
    },
  }
}

export function refusal({ status, body }: Answer): [number, string] {
  return [status, [body?.error?.code, body?.error?.details?.reason].filter((part) => part !== undefined).join('/')]
}
