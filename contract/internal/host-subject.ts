import Type, { type Static } from 'typebox'
import { Enum } from '../schemas/common.ts'
import { Count, Name, wordsOf } from './values.ts'

/** Kinds of owners of a machine. Each owner has at most one machine at a time. */
export const MACHINE_KIND_WORDS = {
  workspace: '',
  execution: 'A command on a tree of files',
  build: 'Of a template',
  test_instance: "Of a template's draft",
} as const
export const MACHINE_KINDS = wordsOf(MACHINE_KIND_WORDS)
export type MachineKind = keyof typeof MACHINE_KIND_WORDS

export const Subject = Type.Object(
  { kind: Enum(MACHINE_KINDS), id: Name() },
  { title: 'Subject', description: 'The owner of a machine, its disks and checkpoints, and the scope of fencing tokens.' },
)
export type Subject = Static<typeof Subject>

export const VolumeSubject = Type.Object(
  { kind: Type.Literal('volume'), id: Name() },
  { title: 'VolumeSubject', description: 'A volume has no machine; fencing tokens guard its files.' },
)
export type VolumeSubject = Static<typeof VolumeSubject>

const attempt = {
  operation_id: Name(),
  step: Name(),
  epoch: Count(),
  fence: Count('The fencing token: it grows with every attempt over all operations of a subject.'),
}

export const CommandHeader = Type.Object(
  { subject: Subject, ...attempt },
  { title: 'CommandHeader', description: 'The command header of a verb.' },
)
export type CommandHeader = Static<typeof CommandHeader>

export const VolumeHeader = Type.Object(
  { subject: VolumeSubject, ...attempt },
  { title: 'VolumeHeader', description: 'The command header of a verb on a volume.' },
)
export type VolumeHeader = Static<typeof VolumeHeader>
