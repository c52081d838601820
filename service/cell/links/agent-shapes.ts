import { isIP } from 'node:net'
import { Type } from 'typebox'
import { LIMITS } from '../../../contract/limits.ts'
import { Change } from '../../../contract/schemas/cell/change.ts'
import { Nullable } from '../../../contract/schemas/common.ts'
import { shape, type Shape } from './agent-answer.ts'
import { AgentTrouble } from './agent-trouble.ts'

const { type, size, mode } = Change.properties
export const facts = shape(
  Type.Object({ facts: Type.Array(Nullable(Type.Object({ type, size, mode })), { maxItems: LIMITS.file.changes_page_max }) }),
)

/** The longest address of IPv6. */
const ADDRESS_MAX = 45
const listed = shape(
  Type.Object({ addresses: Type.Array(Type.String({ maxLength: ADDRESS_MAX }), { maxItems: LIMITS.port.addresses_max }) }),
)
export const listeners: Shape<{ addresses: string[] }> = {
  parse(value) {
    const { addresses } = listed.parse(value)
    if (!addresses.every((each) => isIP(each) !== 0)) throw new AgentTrouble('nonsense', 'The agent named an address that is none')
    return { addresses }
  },
}
