import Type, { type Static } from 'typebox'
import { Enum } from '../schemas/common.ts'
import { CommandHeader, Subject } from './host-subject.ts'
import { Count, Flag, Name, wordsOf } from './values.ts'

// A tree, and a command's changes to a tree, are sent as entries: a line of JSON, then the content of a file. Paths are relative to the
// guest's /home/user; '' is the root.

export const TreeApplyRequest = Type.Object(
  {
    ...CommandHeader.properties,
    from: Type.Optional(Name('The tree of the present copy. Absent: the copy is made from scratch.')),
    to: Name(),
    layers: Type.Array(Name(), { description: 'They determine the owner of files in /home/user.' }),
    disk_gib: Count(),
  },
  { title: 'TreeApplyRequest', description: 'The first line of an upload; differences from the kept copy follow as entries.' },
)
export type TreeApplyRequest = Static<typeof TreeApplyRequest>

export const TreeChangesRequest = Type.Object(
  {
    subject: Subject,
    disk: Name(),
    layers: Type.Array(Name()),
    tree: Type.Boolean({ description: 'The machine was started on a tree.' }),
    bytes_max: Count(),
    entries_max: Count(),
  },
  { title: 'TreeChangesRequest', description: "The call names an ended machine's disk." },
)
export type TreeChangesRequest = Static<typeof TreeChangesRequest>

export const TREE_ENTRY_WORDS = {
  file: '',
  directory: 'An existing directory stays; an opaque one replaces anything at the path',
  symlink: '',
  remove: 'Also if nothing is there',
  refused: 'Instead of an end: the rest cannot be represented, with the reason',
  end: '',
} as const

/** Values of `why` in a refused entry. */
export const TREE_REFUSALS = { name_not_utf8: '', path_too_long: '', too_large: '', too_many_entries: '' } as const

export const TreeEntry = Type.Object(
  {
    path: Type.String({ maxLength: 8192 }),
    type: Enum(wordsOf(TREE_ENTRY_WORDS)),
    mode: Type.Optional(Type.Integer({ minimum: 0, maximum: 0o7777 })),
    modified_ms: Type.Optional(Count()),
    size: Type.Optional(Count('Of the content that follows.')),
    target: Type.Optional(Type.String({ maxLength: 8192 })),
    opaque: Flag(),
    why: Type.Optional(Type.String({ maxLength: 64 })),
  },
  { title: 'TreeEntry', description: 'The state of one path. A directory comes before its content.' },
)
export type TreeEntry = Static<typeof TreeEntry>
