import Type, { type Static } from 'typebox'

/** The value is never returned. */
export const ScanFinding = Type.Object(
  {
    path: Type.String({ description: 'Absolute' }),
    rule: Type.String({ description: 'What it looks like' }),
    line: Type.Integer({ description: 'The first one that it was found on' }),
  },
  { title: 'ScanFinding' },
)
export type ScanFinding = Static<typeof ScanFinding>
