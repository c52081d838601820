import assert from 'node:assert/strict'
import { test } from 'node:test'
import { unrecordedWrites } from './changes.ts'
import { sourceFiles, textOf } from './sources.ts'

const sources = sourceFiles('service')
  .filter((file) => /^service\/(api|admin|core)\/.*\.ts$/.test(file) && !file.endsWith('.test.ts'))
  .map((file) => ({ file, text: textOf(file) }))

/** Writes without a record, by file and function, with the reason. */
const NO_CHANGES: Record<string, string> = {
  'service/api/access/auth/store.ts touchPersonSession': 'when a session was last used',
  'service/api/access/api-keys/store.ts noteKeyUse': 'when a key was last used',
  'service/api/calls/idempotency/store.ts keepStatus': 'what repeats are answered with',
  'service/api/calls/idempotency/store.ts keep': 'what repeats are answered with',
  'service/api/calls/idempotency/store.ts forgetOutcomes': 'what repeats are answered with, when it is old',
  'service/api/workspaces/tool-tokens/store.ts countToken': 'one statement, which writes the record itself',
  'service/api/workspaces/tool-tokens/store.ts dropOldSessions': 'old sessions go by themselves, as expired rows do',
  'service/api/workspaces/tool-tokens/store.ts publishKey': 'the public half of a key that a process has made for itself',
  'service/core/secrets/store.ts insertFirstSealingKey': 'the public half of a key that a process has made for itself',
  'service/core/secrets/rewrap-store.ts writeWrapped':
    'for which key a data key is sealed: its value stays, and the command records the rotation',
  'service/core/secrets/rewrap-store.ts writeSealedAuthority':
    "for which key an authority's key is sealed: it stays, and the command records the rotation",
  'service/core/keys/ring/key-ring-store.ts announceKey':
    'the name of a key that a process makes for itself; a command calls it in its change',
  'service/core/keys/ring/key-ring-store.ts writeCheck': 'that a key which was announced has been made',
  'service/core/people/email-tokens-store.ts insertEmailToken': 'what a requested mail carries, made when it is sent',
  'service/api/records/mail/store.ts giveInvitationToken': 'what a requested mail carries, made when it is sent',
  'service/api/records/mail/store.ts claimMail': 'who sends a mail at the moment',
  'service/api/records/mail/store.ts endMail': 'whether a mail was sent',
  'service/api/records/mail/store.ts forgetMails': 'mails and tokens, when they are over',
  'service/api/records/exports/store.ts claimExport': 'who makes an export at the moment',
  'service/api/records/exports/store.ts holdExport': 'who makes an export at the moment',
  'service/api/records/exports/store.ts insertPart': 'a requested export, as it is made',
  'service/api/records/exports/store.ts endReady': 'a requested export, when it is made',
  'service/api/records/exports/store.ts endFailed': 'a requested export, when it cannot be made',
  'service/api/records/exports/store.ts dropExports': 'exports, when they are old',
  'service/api/lifecycle/organizations/ending-store.ts noteProgress': 'how far the deletion of an organization is',
  'service/core/people/feedback/store.ts forgetFeedback': 'feedback, when it is old',
  'service/core/people/sessions-store.ts forgetSessions': 'sessions, when they are long over',
  'service/api/access/invitations/store.ts forgetInvitations': 'invitations, when they are long over',
  'service/api/workspaces/tool-tokens/store.ts forgetBudgets': 'budgets that are full',
  'service/core/money/usage/grant-store.ts writeDraws': 'what the meters found used of a credit, which a command gave',
  'service/api/templates/files/store.ts wantLists': 'which layers are to be listed: what is in them is said by their names',
  'service/api/templates/uploads/store.ts completeUpload': 'what the digest of the parts has shown; each part has its record',
  'service/api/templates/uploads/store.ts restartUpload': 'what the digest of the parts has shown; each part has its record',
  'service/api/templates/uploads/store.ts dropOldUploads': 'uploads that are no longer used',
  'service/core/changes/store.ts the module': 'the record itself',
  'service/api/money/payment/store.ts keepAccount': 'what the payment service knows an organization by; the checkout has its record',
  'service/api/money/payment/store.ts takeSubscriptions': 'who looks at a subscription at the moment',
  'service/api/money/payment/store.ts writePage': 'the page of a checkout, which has its record',
  'service/api/money/payment/store.ts endCheckout': 'that a checkout came to nothing',
  'service/api/money/payment/store.ts takeCheckouts': 'who looks at a checkout at the moment',
  'service/api/money/payment/store.ts keepEvent': 'what the payment service told; its effect has its record',
  'service/api/money/payment/store.ts takeEvent': 'who gives an event its effect at the moment',
  'service/api/money/payment/store.ts endEvent': 'that an event has had its effect',
  'service/api/money/payment/store.ts addInvoices': 'that an invoice is to be pushed',
  'service/api/money/payment/store.ts takeInvoice': 'who pushes an invoice at the moment',
  'service/api/money/payment/store.ts writeInvoice': 'how far an invoice is there',
  'service/api/money/payment/store.ts keepRemote': 'what the payment service knows an invoice by',
  'service/api/money/payment/store.ts settleInvoice': 'that an invoice is over there; its end here has its record',
  'service/api/money/payment/store.ts lookAtInvoice': 'that an invoice is to be looked at',
  'service/api/money/payment/store.ts forgetPayments': 'events and checkouts, when they are old',
  'service/core/changes/store.ts auditText': 'the record itself',
  'service/core/changes/chain-store.ts linkChain': 'the place of a record in its chain',
  'service/core/changes/chain-store.ts lockChain': 'the place of a record in its chain',
  'service/core/changes/chain-store.ts dropOfChain': 'records, when they are old',
}

test('every write of an api handler or a command is in the transaction of mutate', () => {
  const found = sources.flatMap(unrecordedWrites)
  const wrong = found.filter(({ file, within }) => NO_CHANGES[`${file} ${within}`] === undefined)
  assert.deepEqual(
    wrong.map(
      ({ file, line, within }) => `${file}:${line}: ${within} writes: let it take a ChangeTx, which mutate (core/changes) hands out`,
    ),
    [],
  )
  const named = new Set(found.map(({ file, within }) => `${file} ${within}`))
  assert.deepEqual(
    Object.keys(NO_CHANGES).filter((name) => !named.has(name)),
    [],
    'these write nothing: take them off the list',
  )
})

test('only mutate makes a transaction that of a change', () => {
  const casts = sources.filter(({ text }) => /as (unknown as )?ChangeTx\b/.test(text)).map(({ file }) => file)
  assert.deepEqual(casts, ['service/core/changes/mutate.ts'])
})

test('a write without the transaction of a change is found, by Kysely and by text', () => {
  const text = `
    async function one(db: Db) { await db.updateTable('plans').set({}).execute() }
    const two = (reads: Reader) => reads.rows('x', 'insert into plans (id) values ($1)', [])
    async function three(tx: ChangeTx) { await tx.deleteFrom('plans').execute(); const f = () => tx.insertInto('plans') }
    async function four(db: Db) { await sql\`update plans set name = \${name}\`.execute(db) }
    async function five(db: Db) { await db.selectFrom('plans').forUpdate().execute() }`
  const found = unrecordedWrites({ file: 'a.ts', text })
  assert.deepEqual(
    found.map(({ line, within }) => [line, within]),
    [
      [2, 'one'],
      [3, 'the module'],
      [5, 'four'],
    ],
  )
})
