import http from 'node:http'
import { type Db, openDatabase } from '../db/database.ts'
import { readerOf } from '../db/reader.ts'
import { readInstallationId } from '../core/installation/store.ts'
import { mutate } from '../core/changes/mutate.ts'
import { systemClock } from '../lib/clock.ts'
import { createIds } from '../lib/ids.ts'
import { AdminError, type Output, subjectOf, words } from './command.ts'
import { byOperator } from './operator.ts'
import type { DoctorPaths } from './doctor-facts.ts'

const ANSWER_MS = 20_000

/** @param argv the id of the pool's current owner, so that an operator cannot take over another pool by mistake. */
export async function adoptPool(argv: string[], { database_url, hostd_socket }: DoctorPaths, output: Output): Promise<number> {
  const { INSTALLATION: instead_of } = words(argv, 'INSTALLATION')
  const db = openDatabase({ url: database_url, role: null, connections_max: 1, application_name: 'berth-admin' })
  try {
    const installation_id = await idOf(db)
    const { status, message } = await tellHostd(hostd_socket, { installation_id, instead_of })
    if (status !== 200) throw new AdminError(message === '' ? `hostd answered ${status} without a reason` : message)
    const at = { clock: systemClock, ids: createIds(systemClock) }
    await mutate(db, byOperator(at), 'pools.adopt', async () => undefined, subjectOf('pool', installation_id, {}, { instead_of }))
    output.line(`The pool belongs to installation ${installation_id}`)
    output.note('What its rows do not name is kept for quarantine_days: npm run admin -- doctor lists it')
    return 0
  } finally {
    await db.destroy()
  }
}

async function idOf(db: Db): Promise<string> {
  return readInstallationId(readerOf(db))
}

function tellHostd(socketPath: string, body: object): Promise<{ status: number; message: string }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; message: string }>()
  const options = { socketPath, path: '/installation', method: 'POST', agent: false, timeout: ANSWER_MS }
  const request = http.request({ ...options, headers: { 'content-type': 'application/json' } }, (response) => {
    let text = ''
    response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
    response.on('error', reject)
    response.on('end', () => resolve({ status: response.statusCode ?? 0, message: messageOf(text) }))
  })
  request.on('timeout', () => request.destroy(new Error('No answer')))
  request.on('error', (cause) => reject(new AdminError('hostd does not answer: start Berth first', { cause })))
  request.end(JSON.stringify(body))
  return promise
}

/** Catches errors, because one in the listener would end the command without a message. */
function messageOf(text: string): string {
  try {
    return (JSON.parse(text) as { message?: string }).message ?? ''
  } catch {
    return ''
  }
}
