import type { Buckets } from '../../http/buckets.ts'
import type { PackageIndex } from './packages/package-index.ts'
import type { PartPermits } from './uploads/places.ts'

/** Services and settings of templates and builds. */
export interface TemplateDeps {
  /** Folder of uploads; null: uploads are not kept. */
  uploads_dir: string | null
  part_places: PartPermits
  /** Debian mirror for builds; null: Debian's own mirrors. */
  package_mirror: string | null
  /** Index of the Debian mirror; null: none configured. */
  packages: PackageIndex | null
  package_lookups: Buckets
}
