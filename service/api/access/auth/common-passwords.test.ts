import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isCommon } from './common-passwords.ts'

test('the most guessed passwords are common in any case and width, like one repeated letter and the address itself', () => {
  for (const password of ['password123', 'Password123', 'qwertyuiop', '1234567890', 'ｐａｓｓｗｏｒｄ１２３', ' password123 ', 'aaaaaaaaaaaa']) {
    assert.ok(isCommon(password), password)
  } // prettier-ignore
  for (const password of ['ada.lovelace@example.com', 'Ada.Lovelace']) assert.ok(isCommon(password, 'ada.lovelace@example.com'), password)
})

test('an unusual password is not common', () => {
  for (const password of ['correct horse battery staple', 'a long enough password', 'пароль моей мамы', '天地玄黄宇宙洪荒日月']) {
    assert.ok(!isCommon(password, 'ada@example.com'), password)
  }
})
