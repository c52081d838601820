import { readFile } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import { firstBroken, INSTALLATION_CHAIN, type Broken, type Link } from '../core/changes/chain.ts'
import { countUnlinked, eventsAfter, listChains, type Chain } from '../core/changes/chain-store.ts'
import { AdminError, type Command, type Context } from './command.ts'

const PAGE = 5000

export const AUDIT_COMMANDS: Record<string, Command> = {
  'audit verify': { synopsis: '[--ends FILE]', run: verify },
}

/** Operators store the ends of chains elsewhere. --ends compares them and so detects a chain that was rewritten as a whole. */
async function verify(argv: string[], { db, output }: Context): Promise<void> {
  const { values } = parseArgs({ args: argv, options: { ends: { type: 'string' } } })
  const kept = values.ends === undefined ? [] : endsIn(await readFile(values.ends, 'utf8'))
  const chains = await listChains(db)
  for (const chain of chains) {
    const broken = await brokenIn(db, chain, kept.find(({ chain_id }) => chain_id === chain.chain_id)) // prettier-ignore
    if (broken !== null)
      throw new AdminError(`${nameOf(chain)}: record ${broken.sequence}${broken.id === null ? '' : ` (${broken.id})`}: ${broken.why}`)
    output.line(`${chain.chain_id} ${chain.end.sequence} ${chain.end.sha256.toString('hex')}`)
    output.note(`${nameOf(chain)}: ${chain.end.sequence - chain.dropped.sequence} records are whole`)
  }
  const gone = kept.find(({ chain_id }) => !chains.some((chain) => chain.chain_id === chain_id))
  if (gone !== undefined) throw new AdminError(`The chain ${gone.chain_id} is gone`)
  const waiting = await countUnlinked(db)
  if (waiting > 0) output.note(`${waiting} records wait for their link`)
}

/** A stored end older than all records of its chain proves nothing, so it is ignored. */
async function brokenIn(db: Context['db'], { chain_id, end, dropped }: Chain, kept: KeptEnd | undefined): Promise<Broken | null> {
  let link: Link = dropped
  while (link.sequence < end.sequence) {
    const until = Math.min(PAGE, end.sequence - link.sequence)
    const rows = await eventsAfter(db, chain_id, link.sequence, until)
    if (rows.length === 0) return { sequence: link.sequence + 1, id: null, why: 'it and all behind it are missing' }
    const checked = firstBroken(link, rows)
    if ('why' in checked) return checked
    const at_kept = rows.find(({ sequence }) => sequence === kept?.sequence)
    if (at_kept !== undefined && at_kept.sha256?.toString('hex') !== kept?.sha256) {
      return { sequence: at_kept.sequence ?? 0, id: at_kept.id, why: 'it is not the one that was there when the ends were kept' }
    }
    link = checked
  }
  if (!link.sha256.equals(end.sha256)) return { sequence: end.sequence, id: null, why: 'the chain ends otherwise than it says' }
  const is_short = kept !== undefined && kept.sequence > end.sequence
  return is_short ? { sequence: end.sequence + 1, id: null, why: 'it was there when the ends were kept' } : null
}

interface KeptEnd {
  chain_id: string
  sequence: number
  sha256: string
}

function endsIn(text: string): KeptEnd[] {
  return text
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => {
      const [chain_id = '', sequence = '', sha256 = ''] = line.trim().split(/\s+/)
      if (!/^\d+$/.test(sequence) || !/^[0-9a-f]{64}$/.test(sha256)) throw new AdminError(`This is no end of a chain: ${line}`)
      return { chain_id, sequence: Number(sequence), sha256 }
    })
}

function nameOf({ chain_id, slug }: Chain): string {
  return chain_id === INSTALLATION_CHAIN ? 'the installation' : `organization ${slug ?? chain_id}`
}
