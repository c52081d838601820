import assert from 'node:assert/strict'
import pino, { type Logger } from 'pino'
import { collectAll } from '../../service/api/money/payment/collector.ts'
import type { PaymentDeps } from '../../service/api/money/payment/effects.ts'
import { openStripe } from '../../service/api/money/payment/stripe.ts'
import { openPaymentDouble, type PaymentDouble } from '../support/payment-double.ts'
import { seeder, world, type Answer, type CallOptions, type World, type WorldOptions } from './support.ts'

export interface Shop extends AsyncDisposable {
  w: World
  double: PaymentDouble
  /** Session token of an owner of organization a who has just given their password. */
  owner: string
  buy(plan?: string, options?: CallOptions): Promise<Answer>
  portal(): Promise<Answer>
  subscription(): Promise<Answer['body']>
  tell(body: string, headers?: Record<string, string>, base?: string): Promise<Answer>
  page(): string
  collect(): Promise<void>
  deps: PaymentDeps
}

export async function openShop(options: WorldOptions = {}, logger: Logger = pino({ level: 'silent' })): Promise<Shop> {
  const double = await openPaymentDouble()
  const w = await world({ stripe: double.config, ...options })
  const { clock, ids, database } = w
  const seeds = seeder(database, clock, ids)
  const owner = (await seeds.person(w.a.organization_id, 'owner', { stepped_up: true })).token
  const prices = { is_listed: true, currency: 'EUR', price_minor: 5000 }
  for (const slug of ['team', 'studio']) {
    const id = await seeds.plan(slug)
    await database.superuser.updateTable('plans').set(prices).where('id', '=', id).execute()
  }
  const deps: PaymentDeps = { db: database.api, clock, ids, logger, payment: openStripe(double.config) }
  const path = (name: string) => `/v1/organizations/${w.a.organization_id}/${name}`
  const page = () => {
    const id = double.of('checkout.session').at(-1)?.id
    assert.ok(id !== undefined)
    return id
  }
  return {
    w,
    double,
    owner,
    page,
    deps,
    buy: (plan = 'team', given = {}) => w.call('POST', path('checkout'), { as: owner, body: { plan }, ...given }),
    portal: () => w.call('POST', path('billing-portal'), { as: owner }),
    subscription: async () => (await w.get(path('subscription'))).body,
    tell: (body, headers = {}, base = w.base) => {
      const signed = { 'stripe-signature': double.sign(body, clock.now()), ...headers }
      return w.call('POST', '/v1/payment-events/stripe', { as: null, body, headers: signed, base })
    },
    collect: () => collectAll(deps),
    async [Symbol.asyncDispose]() {
      await w[Symbol.asyncDispose]()
      await double[Symbol.asyncDispose]()
    },
  }
}
