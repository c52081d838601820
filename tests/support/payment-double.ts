// A double of Stripe's API for the official client (stripe-mock has no state), with the calls of service/api/money/payment/stripe.ts, as
// documented. A repeated idempotency key returns the first response. The double takes no cards, makes no invoices of subscriptions, and
// does not check calls that this service never makes.
import { createHmac, randomBytes } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

type Thing = Record<string, unknown> & { id: string; object: string }
type Form = Record<string, string>

export interface PaymentDouble extends AsyncDisposable {
  config: { secret_key: string; webhook_secret: string; api_url: string; return_url: string }
  things: Map<string, Thing>
  calls: string[]
  /** `refuses`: answers 500 to every call. `hangs_up`: closes connections without an answer. */
  mood: 'serves' | 'refuses' | 'hangs_up'
  before_answer: (at: string) => Promise<void>
  forgetKeys(): void
  of(object: string): Thing[]
  pay(session_id: string): string
  late(session_id: string): string
  cancel(subscription_id: string): string
  invoice(id: string, status: 'paid' | 'open' | 'void', type: string): string
  event(type: string, object: object): string
  sign(body: string, at?: Date, secret?: string): string
}

const WEBHOOK_SECRET = `whsec_${randomBytes(24).toString('hex')}`
const SECRET_KEY = `sk_test_${randomBytes(24).toString('hex')}`

export async function openPaymentDouble(): Promise<PaymentDouble> {
  const things = new Map<string, Thing>()
  const answers = new Map<string, { status: number; body: object }>()
  const calls: string[] = []
  let number = 0
  const make = (prefix: string, object: string, fields: object): Thing => {
    number += 1
    const thing = { id: `${prefix}_${number}_${randomBytes(6).toString('hex')}`, object, ...fields }
    things.set(thing.id, thing)
    return thing
  }
  const server = createServer((request, response) => {
    read(request).then(
      async (body) => {
        await double.before_answer(`${request.method} ${(request.url ?? '').slice('/v1/'.length)}`)
        if (double.mood === 'hangs_up') return void request.socket.destroy()
        const { status, body: answer } = double.mood === 'refuses' ? refusal(500, 'api_error') : answered(request, body)
        say(response, status, answer)
      },
      () => response.destroy(),
    )
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo

  function answered(request: IncomingMessage, body: string): { status: number; body: object } {
    if (request.headers.authorization !== `Bearer ${SECRET_KEY}`) return refusal(401, 'invalid_request_error')
    const key = request.headers['idempotency-key']
    const before = typeof key === 'string' ? answers.get(key) : undefined
    if (before !== undefined) return before
    const url = new URL(request.url ?? '/', 'http://double')
    const answer = route(make, things, request.method ?? 'GET', url, formOf(request.method === 'GET' ? url.search.slice(1) : body))
    if (request.method !== 'GET') calls.push(`${request.method} ${url.pathname.replace(/_\d+_[0-9a-f]{12}/, '')}`)
    if (typeof key === 'string' && answer.status < 500) answers.set(key, answer)
    return answer
  }
  const change = (id: string, fields: object) => Object.assign(thingOf(things, id), fields)
  const double: PaymentDouble = {
    config: {
      secret_key: SECRET_KEY,
      webhook_secret: WEBHOOK_SECRET,
      api_url: `http://127.0.0.1:${port}`,
      return_url: 'https://example.com/billing',
    },
    things,
    calls,
    mood: 'serves',
    before_answer: async () => undefined,
    forgetKeys: () => answers.clear(),
    of: (object) => [...things.values()].filter((thing) => thing.object === object),
    pay(session_id) {
      const session = thingOf(things, session_id)
      const { id: subscription } = make('sub', 'subscription', {
        status: 'active',
        customer: session['customer'],
        metadata: { plan: (session['form'] as Form)['subscription_data[metadata][plan]'] },
      })
      return double.event('checkout.session.completed', change(session_id, { status: 'complete', subscription }))
    },
    late: (session_id) => double.event('checkout.session.expired', change(session_id, { status: 'expired' })),
    cancel: (id) => double.event('customer.subscription.deleted', change(id, { status: 'canceled' })),
    invoice: (id, status, type) => double.event(type, change(id, { status })),
    event: (type, object) => JSON.stringify({ id: `evt_${randomBytes(8).toString('hex')}`, object: 'event', type, data: { object } }),
    sign(body, at = new Date(), secret = WEBHOOK_SECRET) {
      const t = Math.floor(at.getTime() / 1000)
      return `t=${t},v1=${createHmac('sha256', secret).update(`${t}.${body}`).digest('hex')}`
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  return double
}

function thingOf(things: Map<string, Thing>, id: string): Thing {
  const thing = things.get(id)
  if (thing === undefined) throw new Error(`the double has no ${id}`)
  return thing
}

type Make = (prefix: string, object: string, fields: object) => Thing

function route(make: Make, things: Map<string, Thing>, method: string, url: URL, form: Form): { status: number; body: object } {
  const [, , ...path] = url.pathname.split('/')
  const made = (thing: object) => ({ status: 200, body: thing })
  const at = `${method} ${path.map((part) => (/_\d+_[0-9a-f]{12}$/.test(part) ? ':id' : part)).join('/')}`
  const customer = form['customer']
  if (customer !== undefined && things.get(customer)?.object !== 'customer') return refusal(400, 'invalid_request_error')
  switch (at) {
    case 'POST customers':
      return made(make('cus', 'customer', { name: form['name'], metadata: { organization_id: form['metadata[organization_id]'] } }))
    case 'POST checkout/sessions': {
      const page = make('cs_test', 'checkout.session', {
        status: 'open', customer, subscription: null, form, client_reference_id: form['client_reference_id'] ?? null,
      }) // prettier-ignore
      return made(Object.assign(page, { url: `https://checkout.double/${page.id}` }))
    }
    case 'POST billing_portal/sessions':
      return made(make('bps', 'billing_portal.session', { url: `https://portal.double/${customer}` }))
    case 'POST invoices':
      return made(
        make('in', 'invoice', { status: 'draft', customer, total: 0, currency: form['currency'], description: form['description'] }),
      )
    case 'POST invoiceitems': {
      const invoice = things.get(form['invoice'] ?? '')
      if (invoice?.['status'] !== 'draft' || invoice['currency'] !== form['currency']) return refusal(400, 'invalid_request_error')
      invoice['total'] = Number(invoice['total']) + Number(form['amount'])
      const { amount, description } = { amount: Number(form['amount']), description: form['description'] }
      return made(make('ii', 'invoiceitem', { invoice: invoice.id, amount, description, metadata: { line: form['metadata[line]'] } }))
    }
    case 'GET invoiceitems': {
      const data = [...things.values()].filter((one) => one.object === 'invoiceitem' && one['invoice'] === form['invoice'])
      return made({ object: 'list', url: '/v1/invoiceitems', has_more: false, data })
    }
  }
  return ofThing(things, `${method} ${path.at(-1) ?? ''}`, path, form)
}

function ofThing(things: Map<string, Thing>, act: string, path: string[], form: Form): { status: number; body: object } {
  const thing = path.map((part) => things.get(part)).find((found) => found !== undefined)
  if (thing === undefined) return refusal(404, 'invalid_request_error', 'resource_missing')
  const become = (from: string, status: string) =>
    thing['status'] === from ? { status: 200, body: Object.assign(thing, { status }) } : refusal(400, 'invalid_request_error')
  switch (act) {
    case `GET ${thing.id}`:
      return { status: 200, body: thing }
    case 'POST expire':
      return become('open', 'expired')
    case 'POST finalize':
      return become('draft', 'open')
    case 'POST pay':
      return become('open', 'paid')
    case 'POST void':
      return become('open', 'void')
    case `POST ${thing.id}`:
      return { status: 200, body: Object.assign(thing, { description: form['description'], metadata: { plan: form['metadata[plan]'] } }) }
    case `DELETE ${thing.id}`:
      if (thing.object === 'subscription') return become('active', 'canceled')
      things.delete(thing.id)
      return { status: 200, body: { id: thing.id, object: thing.object, deleted: true } }
  }
  return refusal(404, 'invalid_request_error')
}

const refusal = (status: number, type: string, code?: string) => ({
  status,
  body: { error: { type, code, message: 'The double refuses' } },
})

function formOf(text: string): Form {
  return Object.fromEntries(new URLSearchParams(text))
}

async function read(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}

function say(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json', 'request-id': 'req_double' }).end(JSON.stringify(body))
}
