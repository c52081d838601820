/** What machines are made for; machine/internal/wire/subject.go has the same words. */
export const MACHINE_KINDS = ['workspace', 'execution', 'build', 'test_instance'] as const

export type MachineKind = (typeof MACHINE_KINDS)[number]

/** What a machine, its disks and its checkpoints belong to, and what a fence guards. Each has at most one machine at a time. */
export interface Subject {
  kind: MachineKind
  /** A UUID. */
  id: string
}

/** A volume has no machine; fences guard what is stored for it. */
export interface VolumeSubject {
  kind: 'volume'
  /** A UUID. */
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

/** One text for each subject, to know it by in maps. */
export function subjectName({ kind, id }: Subject | VolumeSubject): string {
  return kind === 'workspace' ? id : `${kind}.${id}`
}

export function isWorkspace({ subject }: { subject: Subject }): boolean {
  return subject.kind === 'workspace'
}
