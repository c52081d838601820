import Type, { type Static } from 'typebox'
import { Enum } from '../schemas/common.ts'
import { CheckpointName } from './host.ts'
import { CommandHeader } from './host-subject.ts'
import { As, Count, Digest, Flag, Name, wordsOf } from './values.ts'

/** Values of `details.why` of layer_refused. */
export const LAYER_REFUSALS = { too_large: '', too_many_entries: '', path_too_long: '' } as const

export const LayerRequest = Type.Object(
  {
    ...CommandHeader.properties,
    of: Type.Optional(As(CheckpointName, 'The checkpoint with the disk.')),
    disk: Type.Optional(Name('Instead of `of`: a disk of the subject itself, whose machine has ended, above `layers`.')),
    layers: Type.Optional(Type.Array(Name())),
    root: Type.Optional(
      Type.String({
        description:
          "The directory of the disk that becomes the layer's root, absolute. Absent: the whole disk. not_found: it is no directory.",
      }),
    ),
    whole: Flag('Flattens the layers below into the new layer.'),
    drop: Type.Optional(
      Type.Array(Type.String(), { description: 'Absolute paths to omit. A final "/" means everything in that directory, "*" any name.' }),
    ),
    scan: Flag('Searches the files for secrets.'),
    bytes_max: Count('Bounds the files, and the image.'),
    entries_max: Count(),
  },
  {
    title: 'LayerRequest',
    description:
      "The verb makes one image of a disk's files above its layers; the same disk makes the same image. The header names the subject that gets the layer. The disk may be another's.",
  },
)
export type LayerRequest = Static<typeof LayerRequest>

export const LayerFinding = Type.Object(
  { path: Type.String({ maxLength: 16_384 }), rule: Name(), line: Count() },
  { title: 'LayerFinding', description: 'A possible secret. A finding never contains the secret itself.' },
)

export const LAYER_FINDINGS_MAX = 1000

export const Layer = Type.Object(
  {
    digest: Digest('SHA-256 in hex; names the layer in start requests.'),
    size_bytes: Count(),
    entries: Count(),
    findings: Type.Array(LayerFinding, {
      maxItems: LAYER_FINDINGS_MAX,
      description: `In path order, empty without a scan. Beyond ${LAYER_FINDINGS_MAX} the last finding says so.`,
    }),
  },
  { title: 'Layer' },
)
export type Layer = Static<typeof Layer>

export const LayerListRequest = Type.Object(
  { layer: Digest(), after: Type.String({ description: 'The last directory of the previous answer; "": the root.' }) },
  { title: 'LayerListRequest', description: "The call lists a layer's own content." },
)

const LAYER_ENTRY_TYPES = ['file', 'directory', 'symlink', 'whiteout', 'other'] as const

export const LayerEntry = Type.Object(
  {
    name: Type.String({ minLength: 1 }),
    type: Enum(LAYER_ENTRY_TYPES),
    size_bytes: Count(),
    mode: Type.Integer({ minimum: 0, maximum: 0o7777, description: 'Permissions, with setuid, setgid and sticky.' }),
    uid: Count(),
    gid: Count(),
    sha256: Type.Optional(Digest('Of a file.')),
    target: Type.Optional(Type.String({ description: 'Of a symbolic link.' })),
    opaque: Flag('Hides the content of this directory in the layers below.'),
    redirect: Type.Optional(Type.String({ description: 'Name or path of this directory in the layers below, if it differs.' })),
  },
  { title: 'LayerEntry', description: 'One name of a layer. A whiteout hides the name in all layers below.' },
)
export type LayerEntry = Static<typeof LayerEntry>

export const LayerDirectory = Type.Object(
  { path: Type.String({ pattern: '^/' }), entries: Type.Array(LayerEntry) },
  { title: 'LayerDirectory', description: 'A directory with all its direct entries.' },
)

export const LayerList = Type.Object(
  { directories: Type.Array(LayerDirectory), done: Type.Boolean() },
  {
    title: 'LayerList',
    description:
      "One page of a layer's own content, in a walk's order by byte-sorted names. The next page starts after its last directory.",
  },
)
export type LayerList = Static<typeof LayerList>

export const LayersKept = Type.Object(
  { layers: Type.Array(Digest()) },
  {
    title: 'LayersKept',
    description: 'Layers that a row is about to name. hostd checks that they are whole, and removes none within idle_seconds_min.',
  },
)

export const LayerHere = Type.Object(
  { digest: Digest(), size_bytes: Count(), idle_seconds: Count('Since this process was last asked for the layer.') },
  { title: 'LayerHere' },
)

export const LayersHere = Type.Object(
  { listing: Name('A later LayersDrop names it.'), layers: Type.Array(LayerHere) },
  { title: 'LayersHere', description: "The content of the layers' directory." },
)
export type LayersHere = Static<typeof LayersHere>

export const LayersDrop = Type.Object(
  {
    listing: Name('The listing on which the decision to drop is based.'),
    layers: Type.Array(Digest()),
    idle_seconds_min: Count(),
  },
  {
    title: 'LayersDrop',
    description:
      "The call spares layers in use here, and those requested since the listing or within idle_seconds_min. Another process's listing removes nothing.",
  },
)
export type LayersDrop = Static<typeof LayersDrop>

export const LayersDropped = Type.Object(
  { dropped: Type.Array(Digest()) },
  { title: 'LayersDropped', description: 'Layers that were removed, or were not here.' },
)

/** Rules of findings that report no secret. */
export const LAYER_NOTICE_WORDS = { too_many_findings: '', not_scanned: 'Some files were not scanned' } as const
export const LAYER_NOTICES = wordsOf(LAYER_NOTICE_WORDS)
