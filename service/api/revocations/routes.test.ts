import assert from 'node:assert/strict'
import { test } from 'node:test'
import { APP_ROUTES } from '../../../contract/routes/app/all.ts'
import { answerText, askText, parseAnswer, parseAsk } from '../../core/revocations/messages.ts'

test('every revoking route waits until the revocation is applied', () => {
  const waiting = APP_ROUTES.filter(({ revokes }) => revokes !== undefined).map(({ id, revokes }) => `${id} ${revokes}`)
  assert.deepEqual(waiting.toSorted(), [
    'account.delete everywhere',
    'api-keys.delete everywhere',
    'api-keys.update everywhere',
    'auth.change_password everywhere',
    'auth.confirm_reset everywhere',
    'auth.end_session everywhere',
    'auth.logout everywhere',
    'auth.logout_all everywhere',
    'drafts.discard everywhere',
    'drafts.discard_of_organization everywhere',
    'egress.project_put project',
    'egress.workspace_delete workspace', // egress.workspace_put waits in its handler and answers with the applied policy
    'members.delete everywhere',
    'members.update everywhere',
    'organizations.delete everywhere',
    'port-callbacks.create workspace',
    'port-callbacks.delete workspace',
    'ports.close workspace',
    'workspaces.close workspace',
    'workspaces.delete workspace',
    'workspaces.set_secrets workspace',
  ])
})

const ASKER = '00000000-0000-7000-8000-000000000000'

test('asks and answers survive a round trip, and other texts are rejected', () => {
  const ask = { asker: ASKER, number: 7, scope: `workspace:${ASKER}` } as const
  assert.deepEqual(parseAsk(askText(ask)), ask)
  assert.deepEqual(parseAnswer(answerText({ ...ask, by: 'api:12' })), { ...ask, by: 'api:12' })
  for (const text of ['', 'x', `${ASKER} 7`, `${ASKER} -1 everywhere`, `${ASKER} 7 workspace:x`, `${ASKER} 7 all`, `x 7 everywhere`]) {
    assert.equal(parseAsk(text), null, text)
  }
})
