import type { templateFilesDiff, templateFilesDiffOfOrganization } from '../../../../contract/routes/app/template-files.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import type { TemplateFileChange } from '../../../../contract/schemas/template-files.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { cursorAt, whereOf } from '../../calls/pages.ts'
import { findTemplate, findVersion } from '../find.ts'
import { differences, type Step } from './compare.ts'
import { loader, needLists } from './lists.ts'
import { Overlay } from './overlay.ts'
import { bytesOf, positionOf } from './position.ts'
import { fileView } from './view.ts'
import type { CallDeps, PageDeps, ReadDeps } from '../../calls/deps.ts'

type DiffCall = Call<typeof templateFilesDiff> | Call<typeof templateFilesDiffOfOrganization>

const BOUNDS = {
  directories: LIMITS.template_file.directories_per_page_max,
  position_bytes: LIMITS.template_file.position_bytes_max,
}

/** Versions never change, so a cursor can hold a position in the walk. */
export async function compareFiles(call: DiffCall, deps: PageDeps & Pick<CallDeps, 'db'>): Promise<Reply> {
  const { limit = LIMITS.page.size_default } = call.query
  const where = whereOf(deps.cursor_keys, call)
  const [before, after] = await layersOf(call, deps)
  await needLists(deps, [...before, ...after], call.now)
  const load = loader(deps)
  const steps = differences(new Overlay(before, load), new Overlay(after, load), where === null ? [] : positionOf(where), BOUNDS)
  const { data, next } = await pageOf(steps, limit)
  return { status: 200, body: { data, next_cursor: next === null ? null : cursorAt(deps.cursor_keys, call, bytesOf(next)) } }
}

/** Reads one difference beyond the page: without it the answer has no cursor. */
async function pageOf(steps: AsyncIterable<Step>, limit: number): Promise<{ data: TemplateFileChange[]; next: number[] | null }> {
  const data: TemplateFileChange[] = []
  let last: number[] | null = null
  for await (const step of steps) {
    if (step.kind === 'bound') return { data, next: step.position }
    if (data.length === limit) return { data, next: last }
    data.push(changeOf(step))
    last = step.position
  }
  return { data, next: null }
}

function changeOf({ path, before, after }: Extract<Step, { kind: 'difference' }>): TemplateFileChange {
  const change = before === null ? 'added' : after === null ? 'deleted' : 'modified'
  return { path, change, before: before && fileView(path, before), after: after && fileView(path, after) }
}

async function layersOf({ params, query, who }: DiffCall, { reads }: ReadDeps): Promise<[string[], string[]]> {
  const template = await findTemplate(reads, who, params)
  const version = await findVersion(reads, template, params.version)
  const { against = version.version === 1 ? null : String(version.version - 1) } = query
  if (against === null) return [[], version.layers]
  const [number = '', slug] = against.split('@').reverse()
  const other = slug === undefined ? template : await findTemplate(reads, who, { ...params, slug })
  return [(await findVersion(reads, other, Number(number))).layers, version.layers]
}
