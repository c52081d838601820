import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LIMITS } from '../../contract/limits.ts'
import { invitationEnd } from '../../service/api/access/invitations/create.ts'
import { CHAIN_START, firstBroken } from '../../service/core/changes/chain.ts'
import { eventsAfter, linkEvents } from '../../service/core/changes/chain-store.ts'
import { depth } from '../support/depth.ts'
import { until } from '../support/processes.ts'
import { refusal, signInWorld } from './auth-support.ts'
import { seeder, type World } from './support.ts'
import { patience } from '../support/patience.ts'

const { invitations_max } = LIMITS.organization
/** In long runs 20 organizations send slightly more than 10,000 invitations. */
const ORGANIZATIONS = depth({ short: 1, long: 20 })
/** In long runs all invitations come over HTTP. */
const WAIT_ALREADY = invitations_max - depth({ short: 50, long: invitations_max })
const MADE = invitations_max - WAIT_ALREADY
const TOO_MANY = 10
const AT_ONCE = 8

test(
  `of ${ORGANIZATIONS * (MADE + TOO_MANY)} invitations over HTTP as many as may wait are made, each with one mail and one record`,
  { timeout: patience(900_000) },
  async () => {
    await using s = await signInWorld({ caller_requests_per_minute: 0, edge_requests_per_minute: 0 })
    const { w } = s
    const seeds = seeder(w.database, w.clock, w.ids)
    const plan_id = await seeds.plan('many')
    const owners = []
    for (let n = 0; n < ORGANIZATIONS; n += 1) {
      const { organization_id } = await seeds.tenant(`many-${n}`, plan_id)
      const owner = await seeds.person(organization_id, 'owner', { stepped_up: true })
      owners.push({ organization_id, ...owner, waited: await waitAlready(w, organization_id, owner.id) })
    }
    const asks = owners.flatMap(({ organization_id, token }, at) =>
      Array.from({ length: MADE + TOO_MANY }, (_, n) => ({ organization_id, token, email: `many-${at}-${n}@example.com` })),
    )
    const answers = new Map<string, string[]>(owners.map(({ organization_id }) => [organization_id, []]))
    const waiting = asks.values()
    const invite = async () => {
      for (const { organization_id, token, email } of waiting) {
        const answer = await w.post(`/v1/organizations/${organization_id}/invitations`, { email, role: 'member' }, { as: token })
        answers.get(organization_id)?.push(answer.status === 201 ? answer.body.id : refusal(answer).join(' '))
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, invite))

    await linkEvents(w.database.api)
    for (const { organization_id, token, waited } of owners) {
      const ends = answers.get(organization_id) ?? []
      const made = new Set(ends.filter((end) => !end.includes(' ')))
      const refused = ends.filter((end) => end.includes(' '))
      assert.deepEqual([made.size, new Set(refused), refused.length], [MADE, new Set(['403 quota_exceeded']), TOO_MANY])
      const listed: string[] = []
      for (let cursor: string | null = ''; cursor !== null;) {
        const { body } = await w.get(`/v1/organizations/${organization_id}/invitations?limit=200${cursor === '' ? '' : `&cursor=${cursor}`}`, { as: token }) // prettier-ignore
        listed.push(...(body.data as { id: string }[]).map(({ id }) => id))
        cursor = body.next_cursor
      }
      assert.deepEqual(listed.toSorted(), [...waited, ...made].sort())
      const records = await eventsAfter(w.database.api, organization_id, 0, 2 * invitations_max)
      assert.deepEqual(new Set(records.map(({ subject_id }) => subject_id)), made)
      assert.deepEqual('why' in firstBroken(CHAIN_START, records), false)
    }
    const many = ORGANIZATIONS * MADE
    await until(`${many} mails are sent`, 600_000, async () => s.box.mails.length >= many)
    const addresses = s.box.mails.map(({ to }) => to?.[0]?.address)
    assert.deepEqual([addresses.length, new Set(addresses).size], [many, many])
  },
)

async function waitAlready({ database, clock, ids }: World, organization_id: string, invited_by: string): Promise<string[]> {
  const created_at = clock.now()
  const times = { created_at, expires_at: invitationEnd(created_at), accepted_at: null, revoked_at: null }
  const rows = Array.from({ length: WAIT_ALREADY }, (_, n) => ({
    ...{ id: ids.next(), organization_id, invited_by, email: `waits-${n}@example.com`, role: 'member' as const, token_sha256: null },
    ...times,
  }))
  if (rows.length > 0) await database.superuser.insertInto('invitations').values(rows).execute()
  return rows.map(({ id }) => id)
}
