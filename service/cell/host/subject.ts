/** The kinds of machines, with the same names as machine/internal/wire/subject.go. */
export const MACHINE_KINDS = ['workspace', 'execution', 'build', 'test_instance'] as const

export type MachineKind = (typeof MACHINE_KINDS)[number]

/** The owner of a machine, its disks and checkpoints, and the scope of fencing tokens. Has at most one machine at a time. */
export interface Subject {
  kind: MachineKind
  id: string
}

/** A volume has no machine; fencing tokens guard its files. */
export interface VolumeSubject {
  kind: 'volume'
  id: string
}

export function volumeSubject(id: string): VolumeSubject {
  return { kind: 'volume', id }
}

export function workspaceSubject(id: string): Subject {
  return { kind: 'workspace', id }
}

export function buildSubject(id: string): Subject {
  return { kind: 'build', id }
}

export function subjectName({ kind, id }: Subject | VolumeSubject): string {
  return kind === 'workspace' ? id : `${kind}.${id}`
}

export function isWorkspace({ subject }: { subject: Subject }): boolean {
  return subject.kind === 'workspace'
}
