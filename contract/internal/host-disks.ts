import Type, { type Static } from 'typebox'
import { Subject } from './host-subject.ts'
import { Count, ListOf, Name } from './values.ts'

export const DiskReadRequest = Type.Object(
  {
    workspace_id: Name(),
    tenant: Type.Optional(Name('The organization whose workspaces share readers. Absent: the workspace has its own.')),
    checkpoint_id: Type.Optional(Name('Absent: the workspace would start blank, from `layers` alone.')),
    layers: Type.Optional(Type.Array(Name())),
    machine_epoch: Type.Optional(Count('The machine that runs on the disk; checkpoint and layers are then ignored. Absent: hibernated.')),
    doubted_address: Type.Optional(
      Type.String({ description: 'A reader that did not answer the caller: it is returned again only if it answers hostd.' }),
    ),
  },
  {
    title: 'DiskReadRequest',
    description: "The call names a machine's disk, or the state from which a hibernated workspace would start.",
  },
)
export type DiskReadRequest = Static<typeof DiskReadRequest>

export const DiskReader = Type.Object(
  {
    address: Type.String({ pattern: '^/', maxLength: 108, description: 'Path of the socket.' }),
    agent_key: Type.String({ minLength: 16, maxLength: 512 }),
    epoch: Count('Number of the reader in this hostd.'),
  },
  { title: 'DiskReader', description: 'A reader speaks the protocol of agents over a unix socket, and ends itself when idle.' },
)
export type DiskReader = Static<typeof DiskReader>

/** Largest number of subjects or volumes in one request. */
export const MEASURES_MAX = 500

export const MeasureRequest = Type.Object(
  { subjects: Type.Array(Subject, { maxItems: MEASURES_MAX }) },
  { title: 'MeasureRequest', description: `At most ${MEASURES_MAX} subjects.` },
)

export const DiskMeasure = Type.Object({ subject: Subject, disk_bytes: Count() }, { title: 'DiskMeasure' })

export const Measures = Type.Object(
  { disks: ListOf(DiskMeasure) },
  { title: 'Measures', description: 'The answer omits subjects without files here.' },
)

export const VolumeMeasureRequest = Type.Object(
  { volume_ids: Type.Array(Name(), { maxItems: MEASURES_MAX }) },
  { title: 'VolumeMeasureRequest', description: `At most ${MEASURES_MAX} volumes.` },
)

export const VolumeMeasure = Type.Object({ volume_id: Name(), stored_bytes: Count() }, { title: 'VolumeMeasure' })

export const VolumeMeasures = Type.Object({ volumes: ListOf(VolumeMeasure) }, { title: 'VolumeMeasures' })
