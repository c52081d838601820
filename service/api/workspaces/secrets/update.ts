import { isDeepStrictEqual } from 'node:util'
import type { secretsUpdate } from '../../../../contract/routes/app/secrets.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { readerOf } from '../../../db/reader.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { changing } from '../../calls/idempotency/change.ts'
import { checkAllowed } from './allowed.ts'
import { findSecret, lockSecretForChange, refuseDeletedSecret, secretSubject } from './find.ts'
import { checkedHosts } from './rules.ts'
import { writeSecret } from './store.ts'
import { secretView } from './view.ts'
import type { ChangeDeps, ReadDeps } from '../../calls/deps.ts'

export async function updateSecret(call: Call<typeof secretsUpdate>, deps: ChangeDeps & ReadDeps): Promise<Reply> {
  const { hosts, ...rest } = call.body
  const asked = hosts === undefined ? rest : { ...rest, hosts: checkedHosts(hosts) }
  const work = async (tx: ChangeTx) => {
    const secret = await lockSecretForChange(tx, call)
    refuseDeletedSecret(secret)
    await checkAllowed(readerOf(tx), secret, call.body, secret)
    const changes = Object.fromEntries(
      Object.entries(asked).filter(([name, value]) => !isDeepStrictEqual(value, secret[name as keyof typeof asked])),
    ) as typeof asked
    if (Object.keys(changes).length === 0) return null
    await writeSecret(tx, secret.id, changes, call.now)
    return { secret, changed: Object.keys(changes) }
  }
  await changing(deps, call, work, (done) => done && secretSubject(done.secret, { changed: done.changed }))
  return { status: 200, body: secretView(await findSecret(deps, call)) }
}
