import assert from 'node:assert/strict'
import { test } from 'node:test'
import Type from 'typebox'
import { APP_ROUTES } from '../../contract/routes/app/all.ts'
import { CELL_ROUTES } from '../../contract/routes/cell/all.ts'
import { answersOf, checksOf, validatorOf } from './checks.ts'

// Schemas are compiled at their first value, so starting a process would not find a schema that does not compile.
for (const route of [...APP_ROUTES, ...CELL_ROUTES]) {
  test(`every schema of ${route.id} can be compiled`, () => {
    const { params, query, headers, body } = checksOf(route)
    for (const validate of [params, query, headers, body, ...answersOf(route).values()])
      assert.doesNotThrow(() => validate?.({}), `${route.method} ${route.path}`)
  })
}

test('a validator reports the errors of its last value', () => {
  const validate = validatorOf(Type.Object({ name: Type.String() }))
  assert.deepEqual(validate.errors, [])
  assert.equal(validate({ name: 1 }), false)
  assert.deepEqual(
    validate.errors.map(({ instancePath, keyword }) => [instancePath, keyword]),
    [['/name', 'type']],
  )
  assert.equal(validate({ name: 'a' }), true)
  assert.deepEqual(validate.errors, [])
})

test('a schema is compiled at its first value', () => {
  const validate = validatorOf(Type.Unsafe({ type: 'string', no_such_keyword: true }))
  assert.throws(() => validate('a'), /no_such_keyword/)
})
