import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { LIMITS } from '../../../../contract/limits.ts'
import type { PlannedFile } from '../../../core/templates/recipes/plan.ts'
import type { BuildUpload } from '../../../core/templates/build-plan.ts'
import type { AgentLink } from '../../host/agent-link.ts'
import type { CallBounds } from '../../host/agent-answer.ts'
import { BuildFailed } from './failed.ts'

const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants

/** The folder of the upload in the machine. No layer includes it. */
const PLACE = '/tmp/.berth-build'
export const UPLOAD_TAR = `${PLACE}/upload.tar`
export const UPLOAD_FILES = `${PLACE}/files`

export async function bringUpload(
  link: AgentLink,
  uploads_dir: string,
  upload: BuildUpload,
  bounds: CallBounds,
  to: string = UPLOAD_TAR,
): Promise<void> {
  let append = false
  for (const { name } of upload.parts) {
    for await (const piece of pieces(uploads_dir, upload.id, name)) {
      await write(link, to, piece, { append, mode: '0600', create_parents: true }, bounds)
      append = true
    }
  }
}

const UPLOAD = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
const PART = /^[0-9a-f]{24}$/

/**
 * The api writes both names and the folder. Names that leave the folder and links are refused: a compromised api could make the cell read
 * the keys of secrets.
 */
async function* pieces(uploads_dir: string, upload_id: string, name: string): AsyncGenerator<Buffer> {
  if (!UPLOAD.test(upload_id) || !PART.test(name)) throw new BuildFailed('a part of the upload has a name that no upload has')
  await using folder = await open(join(uploads_dir, upload_id), O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
  // Opened below the open directory, because the path of the directory may have become a link.
  await using file = await open(`/proc/self/fd/${folder.fd}/${name}`, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
  if (!(await file.stat()).isFile()) throw new BuildFailed('a part of the upload is no file')
  const highWaterMark = LIMITS.file.write_bytes_max
  for await (const piece of file.createReadStream({ highWaterMark, autoClose: false })) yield piece as Buffer
}

export async function bringFile(link: AgentLink, { path, content_base64, mode }: PlannedFile, bounds: CallBounds): Promise<void> {
  await write(link, path, Buffer.from(content_base64, 'base64'), { mode: mode.padStart(4, '0'), create_parents: true }, bounds)
}

type Options = Parameters<AgentLink['writeFile']>[1]

async function write(link: AgentLink, path: string, content: Buffer, options: Options, bounds: CallBounds): Promise<void> {
  await link.writeFile(path, options, Readable.from([content]), { content_length: content.length, key: null }, bounds)
}

/** Copies files like COPY of a Dockerfile. The arguments are target, user, mode and sources. */
export const COPY_SCRIPT = `set -eu
IFS=
to=$1 user=$2 mode=$3; shift 3
place=${UPLOAD_FILES}
if [ ! -d "$place" ]; then
  mkdir -p "$place"
  tar -xf ${UPLOAD_TAR} -C "$place" --no-same-owner --no-same-permissions || { echo 'the upload is no tar that can be unpacked' >&2; exit 1; }
fi
cd "$place"
out=$place.out
rm -rf "$out"; mkdir "$out"
found=0
for source do
  for each in $source; do
    [ -e "$each" ] || [ -L "$each" ] || { echo "the upload has no $source" >&2; exit 1; }
    [ -L "$each" ] || case $(readlink -f -- "$each") in "$place"|"$place"/*) ;; *) echo "$each leads out of the upload" >&2; exit 1;; esac
    found=$((found + 1))
    if [ -d "$each" ] && [ ! -L "$each" ]; then cp -a -- "$each/." "$out/"; whole=1; else cp -a -- "$each" "$out/"; whole=0; fi
  done
done
[ -z "$mode" ] || chmod -R -- "$mode" "$out"
chown -R -h -- "$user:" "$out"
case $to in */) is_directory=1;; *) is_directory=0;; esac
if [ "$found" -gt 1 ] || [ "$is_directory" = 1 ] || [ "$whole" = 1 ] || [ -d "$to" ]; then
  [ -d "$to" ] || { mkdir -p -- "$to"; chown -- "$user:" "$to"; }
  find "$out" -mindepth 1 -maxdepth 1 -exec cp -a -t "$to" -- {} +
else
  mkdir -p -- "$(dirname -- "$to")"
  find "$out" -mindepth 1 -maxdepth 1 -exec cp -a -T -- {} "$to" ';'
fi
rm -rf "$out"
`
