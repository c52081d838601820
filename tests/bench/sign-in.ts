import { verify, hash } from '@node-rs/argon2'
import { ARGON2 } from '../../service/api/access/auth/passwords.ts'
import { call } from '../support/client.ts'
import type { Service } from '../support/service.ts'
import { measure, printSeconds, timed } from './harness.ts'

const EMAIL = 'bench@example.com'
const PASSWORD = 'a long enough password'
const SIGN_INS = 50

export async function signInRows(service: Service): Promise<void> {
  const kept = await hash(PASSWORD, ARGON2)
  await person(service)
  const signIn = async () => {
    const { status } = await call(`${service.base_url}/v1/auth/login`, { json: { email: EMAIL, password: PASSWORD } })
    if (status !== 200) throw new Error(`a sign-in answered ${status}`)
  }
  await measure(
    { row: 0, name: 'sign-in', title: 'sign-in against argon2id alone', bar: { at_most: 1.3 } },
    { reference: () => timed(() => verify(kept, PASSWORD, ARGON2)), subject: () => timed(signIn) },
    { warm_ups: 20 },
  )
  const headers = { authorization: `Bearer ${service.api_key}` }
  const opened = await call<{ workspace: { id: string } }>(`${service.base_url}/v1/workspaces/open`, {
    headers,
    json: { key: 'bench-sign-in', template: 'base' },
  })
  const read = () => call(`${service.base_url}/v1/workspaces/${opened.body.workspace.id}`, { headers })
  const reads: number[] = []
  const crowded: { ended: boolean } = { ended: false }
  const crowd = Promise.all(Array.from({ length: SIGN_INS }, signIn)).finally(() => (crowded.ended = true))
  while (!crowded.ended) reads.push(await timed(read))
  await crowd
  const p99 = reads.sort((a, b) => a - b)[Math.floor(reads.length * 0.99)] ?? Number.NaN
  printSeconds('sign-in-crowd', `p99 of ${reads.length} reads of a workspace while ${SIGN_INS} sign in at once`, [p99], 0.1)
}

async function person(service: Service): Promise<void> {
  await service.admin('person', 'create', '--email', EMAIL, '--organization', 'default', '--role', 'member')
  const token = /#token=(\S+)/.exec(await service.admin('person', 'link', '--email', EMAIL))?.[1]
  const { status } = await call(`${service.base_url}/v1/auth/password/reset/confirm`, { json: { token, new_password: PASSWORD } })
  if (status !== 204) throw new Error(`the password was not set: ${status}`)
}
