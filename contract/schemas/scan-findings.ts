import Type, { type Static } from 'typebox'

/** A finding never contains the secret's value. */
export const ScanFinding = Type.Object(
  {
    path: Type.String({ description: 'Absolute' }),
    rule: Type.String({ description: 'What it looks like' }),
    line: Type.Integer({ description: 'The first one that it was found on' }),
  },
  { title: 'ScanFinding' },
)
export type ScanFinding = Static<typeof ScanFinding>
