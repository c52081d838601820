import type { Subject, VolumeSubject } from '../../../contract/internal/host-subject.ts'

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
