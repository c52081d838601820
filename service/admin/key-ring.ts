import { randomBytes } from 'node:crypto'
import { parseArgs } from 'node:util'
import { LIMITS } from '../../contract/limits.ts'
import {
  announceKey,
  deleteSigningKey,
  entriesOfKey,
  type KeyRow,
  listKeys,
  listSigningKeys,
  retireKey,
  type SigningKeyRow,
} from '../core/keys/ring/key-ring-store.ts'
import { activeOf, ANNOUNCED_MS, type Purpose, PURPOSES } from '../core/keys/ring/purposes.ts'
import { retireSigningKeys } from '../core/keys/tool-tokens/store.ts'
import type { Db } from '../db/database.ts'
import { AdminError, type Command, type Context, oneOf, required, show, subjectOf, UsageError, words } from './command.ts'

const TOOL_TOKEN = 'tool-token'
const ALL_PURPOSES = [TOOL_TOKEN, ...PURPOSES] as const
const KEY_ID_BYTES = 4
/** Callers page through one list for at most a day. */
const CURSOR_KEPT_MS = 24 * 3600 * 1000
const TOKEN_KEPT_MS = (LIMITS.credential.tool_token_seconds + LIMITS.credential.signing_key_overlap_seconds) * 1000

/** Commands for the service's own keys. `key create` manages the keys of callers. */
export const KEY_RING_COMMANDS: Record<string, Command> = {
  'keys list': { synopsis: '[--json]', run: showRings },
  'keys rotate': { synopsis: `[${ALL_PURPOSES.join(' | ')}]`, run: rotate },
  'keys retire': { synopsis: `${ALL_PURPOSES.join(' | ')} KEY_ID [--lost]`, run: retire },
}

async function showRings(argv: string[], { db, output, clock }: Context): Promise<void> {
  const { values } = parseArgs({ args: argv, options: { json: { type: 'boolean' } } })
  const now = clock.now()
  const signing = (await listSigningKeys(db)).map(({ kid, created_at, retired_at }) => ({
    purpose: TOOL_TOKEN,
    key_id: kid,
    state: retired_at === null ? 'active' : 'readable',
    created_at,
  }))
  const keys = (await listKeys(db)).filter(({ retired_at }) => retired_at === null)
  const active = new Set(PURPOSES.map((purpose) => activeOf(of(purpose, keys), now)))
  const rings = keys.map((key) => ({
    purpose: key.purpose,
    key_id: key.key_id,
    state: active.has(key) ? 'active' : isAnnounced(key, keys, now) ? 'announced' : 'readable',
    created_at: key.created_at,
  }))
  show(output, [...signing, ...rings], values.json)
}

function of(purpose: Purpose, keys: KeyRow[]): KeyRow[] {
  return keys.filter((key) => key.purpose === purpose)
}

function isAnnounced(key: KeyRow, keys: KeyRow[], now: Date): boolean {
  return key.created_at > (activeOf(of(key.purpose, keys), now)?.created_at ?? now)
}

/** Only api processes have key material. Each makes or reads the new key, and still accepts signatures of the old one. */
async function rotate(argv: string[], { output, clock, change }: Context): Promise<void> {
  const { positionals } = parseArgs({ args: argv, allowPositionals: true, options: {} })
  if (positionals.length > 1) throw new UsageError(`${String(positionals[1])} is one word too many`)
  const purpose = oneOf(positionals[0] ?? TOOL_TOKEN, ALL_PURPOSES, 'PURPOSE')
  const now = clock.now()
  if (purpose !== TOOL_TOKEN) {
    const key_id = randomBytes(KEY_ID_BYTES).toString('hex')
    const subject = subjectOf('service_key', key_id, {}, { purpose })
    await change('service_keys.rotate', (tx) => announceKey(tx, { purpose, key_id, created_at: now }), subject)
    output.line(key_id)
    output.note(`Key ${key_id} signs in ${ANNOUNCED_MS / 1000} seconds; what the one before has signed is read until it is retired`)
    return
  }
  const retired = await change(
    'signing_keys.rotate',
    (tx) => retireSigningKeys(tx, now),
    (kids) => (kids.length === 0 ? null : subjectOf('signing_key', kids.join(','))),
  )
  if (retired.length === 0) throw new AdminError('There is no key that signs: the api makes one when it starts')
  for (const kid of retired) output.line(kid)
  output.note(
    `Tool tokens are signed with a new key from now on; those of the old one live out their ${LIMITS.credential.tool_token_seconds / 60} minutes`,
  )
}

async function retire(argv: string[], { db, output, clock, change }: Context): Promise<void> {
  // A key id may begin with a hyphen, so option parsing is not used.
  const lost = argv.includes('--lost')
  const asked = words(
    argv.filter((word) => word !== '--lost'),
    'purpose',
    'key_id',
  )
  const purpose = oneOf(required(asked.purpose, 'PURPOSE'), ALL_PURPOSES, 'PURPOSE')
  const now = clock.now()
  const refusal = purpose === TOOL_TOKEN ? await signingRefusal(db, asked.key_id, now) : await ringRefusal(db, purpose, asked.key_id, now)
  // No process can verify signatures of a lost key any more, so its row has no use.
  if (refusal !== null && !(lost && refusal.kind === 'needed')) throw new AdminError(refusal.message)
  if (purpose === TOOL_TOKEN) {
    await change('signing_keys.retire', (tx) => deleteSigningKey(tx, asked.key_id), subjectOf('signing_key', asked.key_id))
  } else {
    const subject = subjectOf('service_key', asked.key_id, {}, { purpose })
    await change('service_keys.retire', (tx) => retireKey(tx, purpose, asked.key_id, now), subject)
  }
  output.note(`Key ${asked.key_id} is retired: nothing that it has signed is read any more`)
}

/** A refusal of kind `needed` ends with time. */
interface Refusal {
  kind: 'unknown' | 'active' | 'needed'
  message: string
}

async function signingRefusal(db: Db, kid: string, now: Date): Promise<Refusal | null> {
  const key = (await listSigningKeys(db)).find((each) => each.kid === kid)
  if (key === undefined) return unknown(kid)
  return signingNeed(key, now)
}

function signingNeed({ kid, retired_at }: SigningKeyRow, now: Date): Refusal | null {
  if (retired_at === null) return isActive(kid)
  const until = new Date(retired_at.getTime() + TOKEN_KEPT_MS)
  return until > now ? { kind: 'needed', message: `Tokens of ${kid} are good until ${until.toISOString()}` } : null
}

async function ringRefusal(db: Db, purpose: Purpose, key_id: string, now: Date): Promise<Refusal | null> {
  const keys = (await listKeys(db, purpose)).filter(({ retired_at }) => retired_at === null)
  const key = keys.find((each) => each.key_id === key_id)
  if (key === undefined) return unknown(key_id)
  if (activeOf(keys, now) === key || isAnnounced(key, keys, now)) return isActive(key_id)
  if (purpose === 'cursor') return cursorNeed(key, keys, now)
  const count = await entriesOfKey(db, key_id, new Date(now.getTime() - LIMITS.idempotency.seconds * 1000))
  return count === 0 ? null : { kind: 'needed', message: `${count} idempotency entries of the last day still need ${key_id}` }
}

/** Callers hold cursors that the service does not store, so only time shows that none is in use. */
function cursorNeed(key: KeyRow, keys: KeyRow[], now: Date): Refusal | null {
  const [next] = keys.filter(({ created_at }) => created_at > key.created_at)
  const until = new Date((next?.created_at ?? now).getTime() + ANNOUNCED_MS + CURSOR_KEPT_MS)
  return until > now ? { kind: 'needed', message: `Cursors of ${key.key_id} are in use until ${until.toISOString()}` } : null
}

function unknown(key_id: string): Refusal {
  return { kind: 'unknown', message: `There is no key ${key_id}` }
}

function isActive(key_id: string): Refusal {
  return { kind: 'active', message: `Key ${key_id} signs, or soon will: rotate first` }
}
