import { Type } from 'typebox'
import { LIMITS } from '../../limits.ts'

/** Schemas do not check these headers. Handlers do, each with its own refusal. */
const header = (description: string) => Type.Optional(Type.String({ description }))

const if_match = {
  'If-Match': header(
    'Of a file-first workspace: the revision of the tree that the caller has seen, bare or quoted. Refused with ' +
      '`tree_revision_mismatch` where there is another, and nothing changes',
  ),
}
export const IfTreeRevision = Type.Object(if_match)

export const KeyedChange = Type.Object({
  ...if_match,
  'Idempotency-Key': header(
    `1-${LIMITS.file.idempotency_key_characters_max} characters of A-Z a-z 0-9 . _ : -. A repeat with the same key changes nothing`,
  ),
})

export const RangeHeader = Type.Object({ Range: header('A single `bytes=start-end`, instead of offset and length') })

export const GitAuthorization = Type.Object({
  'X-Git-Authorization': header('A scheme and credentials, which git sends as `Authorization` to the host of the URL alone'),
})
