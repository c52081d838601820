import { type Opener, sealerFor } from '../../../core/keys/ring/sealed-values.ts'
import { openAuthority, sealAuthority } from '../../../core/secrets/authority.ts'
import { lockNewestKey } from '../../../core/secrets/store.ts'
import type { Db } from '../../../db/database.ts'
import { readerOf } from '../../../db/reader.ts'
import type { Clock } from '../../../lib/clock.ts'
import type { Ids } from '../../../lib/ids.ts'
import { type Authority, makeAuthority } from '../../../core/secrets/certificates/certificate.ts'
import { type AuthorityRow, insertAuthority, readAuthority } from './store.ts'

export interface KnownAuthority extends Authority {
  id: string
}

/** Creates the authority when the first secret with hosts is used. */
export interface Authorities {
  of(workspace_id: string): Promise<KnownAuthority>
}

interface AuthoritiesDeps {
  db: Db
  opener: Opener
  clock: Clock
  ids: Ids
}

const OPEN_MAX = 2000

export function createAuthorities({ db, opener, clock, ids }: AuthoritiesDeps): Authorities {
  const open = new Map<string, Authority>()
  const opened = async (row: AuthorityRow): Promise<KnownAuthority> => {
    const known = open.get(row.id) ?? { certificate: row.certificate, private_key: await openAuthority(opener, row) }
    open.delete(row.id)
    open.set(row.id, known)
    for (const id of open.keys()) if (open.size > OPEN_MAX) open.delete(id)
    return { id: row.id, ...known }
  }
  const make = async (workspace_id: string) => {
    const created_at = clock.now()
    const id = ids.next()
    const { certificate, private_key } = makeAuthority(`Berth authority ${id}`, created_at)
    await insertAuthority(db, workspace_id, async (tx) => {
      const newest = await lockNewestKey(tx)
      if (newest === null) throw new Error('There is no key to seal an authority for')
      return { certificate, created_at, ...(await sealAuthority(await sealerFor(newest.public_jwk), id, private_key)) }
    })
  }
  return {
    async of(workspace_id) {
      const reads = readerOf(db)
      let row = await readAuthority(reads, workspace_id)
      if (row === null) {
        await make(workspace_id)
        row = await readAuthority(reads, workspace_id)
      }
      if (row === null) throw new Error('A workspace that is gone has no authority')
      return opened(row)
    },
  }
}
