import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { Berth } from '../../sdk/typescript/src/main.ts'
import { methodsSuite } from '../sdk/methods.ts'
import { calledOperations } from '../sdk/operation-methods.ts'
import { noting } from '../sdk/operations.ts'
import { ownerOf } from '../support/owner.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'

let service: SharedService
let berth: Berth
let person: Berth
const asked = new Set<string>()
before(async () => {
  service = await sharedService()
  berth = new Berth({ url: service.base_url, apiKey: service.api_key, ...noting(asked) })
  person = new Berth({ url: service.base_url, apiKey: await ownerOf(service), ...noting(asked) })
})
after(() => service.stop())

methodsSuite('real machines', () => ({ berth, person }))

test('the methods of the SDK have called each operation that has a method', () => {
  assert.deepEqual(calledOperations().filter((id) => !asked.has(id)), []) // prettier-ignore
})
