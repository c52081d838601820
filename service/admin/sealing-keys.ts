import { randomBytes } from 'node:crypto'
import { chown, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { dropFile } from '../core/keys/ring/key-files.ts'
import { openerOf, sealerFor, type SealingKey } from '../core/keys/ring/sealed-values.ts'
import { type KeyFile, type SealingFolder, sealingFolder } from '../core/keys/ring/sealing-folder.ts'
import { commandKeyWrapper } from '../core/keys/ring/wrapping.ts'
import { resealAuthority } from '../core/secrets/authority.ts'
import { rewrap } from '../core/secrets/envelope.ts'
import {
  awaitSealers,
  countCells,
  deleteSealingKey,
  insertSealingKey,
  keyUses,
  type KeyUse,
  listSealedAuthorities,
  listWrapped,
  writeSealedAuthority,
  writeWrapped,
} from '../core/secrets/rewrap-store.ts'
import { AdminError, type Command, type Context, required, show, subjectOf, words } from './command.ts'

const BATCH = 200
const NAME_BYTES = 4

export const SEALING_KEY_COMMANDS: Record<string, Command> = {
  'keys kek': { synopsis: '[--json]', run: showSealingKeys },
  'keys prepare-kek': { synopsis: '', run: prepare },
  'keys rotate-kek': { synopsis: '[--use FILE]', run: rotate },
  'keys retire-kek': { synopsis: 'KEY_ID', run: retire },
}

async function showSealingKeys(argv: string[], context: Context): Promise<void> {
  const { db, output } = context
  const { values } = parseArgs({ args: argv, options: { json: { type: 'boolean' } } })
  const keys = await folderOf(context).files()
  const rows = (await keyUses(db)).map((use, at) => {
    const file = keys.find(({ key_id }) => key_id === use.key_id)?.file ?? null
    return { key_id: use.key_id, state: at === 0 ? 'active' : 'readable', values: use.values, file, created_at: use.created_at }
  })
  show(output, rows, values.json)
}

/** Makes the key's file only. Operators copy it to every computer before values are sealed for the key. */
async function prepare(argv: string[], context: Context): Promise<void> {
  const { output } = context
  words(parseArgs({ args: argv, allowPositionals: true, options: {} }).positionals)
  const { file } = await makeKey(context)
  output.line(file)
  output.note(`Copy ${file} into the folder of the cell of every other computer, then: npm run admin -- keys rotate-kek --use ${file}`)
}

/** Values do not change, only the keys that seal them. An interrupted rotation continues and makes no second key. */
async function rotate(argv: string[], context: Context): Promise<void> {
  const { values } = parseArgs({ args: argv, options: { use: { type: 'string' } } })
  const { db, output, change, clock } = context
  const directory = directoryOf(context)
  const keys = await folderOf(context).files()
  const uses = await keyUses(db)
  const [newest, ...before] = uses
  if (newest === undefined) throw new AdminError('There is no key yet: the first cell makes one when it starts')
  const missing = uses.filter((use) => use.values > 0 && !keys.some(({ key_id }) => key_id === use.key_id))
  if (missing.length > 0) throw new AdminError(`The file of ${missing.map(({ key_id }) => key_id).join(', ')} is not in ${directory}`)
  const is_unfinished = before.some((use) => use.values > 0)
  const used = keys.find(({ file }) => file === values.use)
  if (values.use !== undefined && used === undefined) throw new AdminError(`${directory} has no key ${values.use}`)
  if (!is_unfinished || (used !== undefined && used.key_id !== newest.key_id)) {
    if (used === undefined && (await countCells(db)) > 1) {
      throw new AdminError('Other computers need the key before anything is sealed for it: begin with `keys prepare-kek`')
    }
    const filed = used ?? (await makeKey(context))
    if (uses.some(({ key_id }) => key_id === filed.key_id)) throw new AdminError(`${filed.file} is in use already`)
    const needed = await opened(keys, uses)
    const key = await filed.open()
    // The newest key is used for sealing, so its time must be the latest even if the clock was set back.
    const created_at = new Date(Math.max(clock.now().getTime(), newest.created_at.getTime() + 1))
    const row = { key_id: key.key_id, public_jwk: key.public_jwk, created_at }
    await change('sealing_keys.rotate', (tx) => insertSealingKey(tx, row), subjectOf('sealing_key', key.key_id))
    await finish(context, key, [...needed, key])
    return
  }
  const target = keys.find(({ key_id }) => key_id === newest.key_id)
  if (target === undefined) throw new AdminError(`The file of ${newest.key_id} is not in ${directory}`)
  output.note('A rotation was cut off: it goes on')
  await finish(context, await target.open(), await opened(keys, uses))
}

function opened(keys: KeyFile[], uses: KeyUse[]): Promise<SealingKey[]> {
  const needed = keys.filter(({ key_id }) => uses.some((use) => use.key_id === key_id && use.values > 0))
  return Promise.all(needed.map((key) => key.open()))
}

async function finish({ db, output }: Context, newest: SealingKey, keys: SealingKey[]): Promise<void> {
  const [opener, sealer] = [openerOf(keys), await sealerFor(newest.public_jwk)]
  let sealed = 0
  // Waits for transactions that still seal for an older key, so that the last pass misses no value.
  await awaitSealers(db)
  for (;;) {
    const rows = await listWrapped(db, newest.key_id, BATCH)
    if (rows.length === 0) break
    for (const row of rows) await writeWrapped(db, row, await rewrap(opener, sealer, row, row))
    sealed += rows.length
  }
  for (;;) {
    const rows = await listSealedAuthorities(db, newest.key_id, BATCH)
    if (rows.length === 0) break
    for (const row of rows) await writeSealedAuthority(db, await resealAuthority(opener, sealer, row))
    sealed += rows.length
  }
  output.line(newest.key_id)
  output.note(`${sealed} values are sealed for ${newest.key_id} now. Give the key before up: npm run admin -- keys retire-kek KEY_ID`)
}

/** Without the key's file remains of erased values (dead rows, WAL, backups) can never be opened. */
async function retire(argv: string[], context: Context): Promise<void> {
  const { db, output, change } = context
  const { key_id } = words(argv, 'key_id') // an id may begin with a hyphen, so option parsing is not used
  const directory = directoryOf(context)
  const uses = await keyUses(db)
  const use = uses.find((each) => each.key_id === key_id)
  if (use === undefined) throw new AdminError(`There is no key ${key_id}`)
  if (use === uses[0]) throw new AdminError(`Values are sealed for ${key_id}: rotate first`)
  if (use.values > 0) throw new AdminError(`${use.values} values still need ${key_id}: \`keys rotate-kek\` seals them anew`)
  await change('sealing_keys.retire', (tx) => deleteSealingKey(tx, key_id), subjectOf('sealing_key', key_id))
  const files = (await folderOf(context).files()).filter((key) => key.key_id === key_id)
  for (const { file } of files) await dropFile(directory, file)
  output.note(`Key ${key_id} is given up${files.length === 0 ? '' : `, and ${files.map(({ file }) => file).join(', ')} deleted`}`)
  if ((await countCells(db)) > 1) output.note('Delete its file on every other computer, and in their backups')
}

function directoryOf({ secret_keys_dir }: Context): string {
  return required(secret_keys_dir, 'The folder of the keys')
}

function folderOf(context: Context): SealingFolder {
  const { output, secret_keys_command = '' } = context
  const directory = directoryOf(context)
  const wrapping = secret_keys_command === '' ? null : commandKeyWrapper(secret_keys_command)
  return sealingFolder(directory, wrapping, (name, error) => output.note(`${join(directory, name)} holds no key: ${String(error)}`))
}

/** The new file gets the folder's owner, because the cell must be able to read it. */
async function makeKey(context: Context): Promise<KeyFile> {
  const directory = directoryOf(context)
  const key = await folderOf(context).make(randomBytes(NAME_BYTES).toString('hex'))
  const { uid, gid } = await stat(directory)
  await chown(join(directory, key.file), uid, gid)
  return key
}
