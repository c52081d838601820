import type { Static, TSchema } from 'typebox'
import { Compile } from 'typebox/compile'
import { FROM_PROXY, type Tally as SentTally } from '../../../contract/internal/ports.ts'
import { PORT_REFUSALS, type PortRefusal } from '../../../contract/port-refusals.ts'

export interface Tally extends Omit<Static<typeof SentTally>, 'refused'> {
  refused: [PortRefusal, number][]
}

type Sent = { [K in keyof typeof FROM_PROXY]: { [P in K]: Static<(typeof FROM_PROXY)[K]> } }

export type FromProxy = Sent[Exclude<keyof Sent, 'tally'>] | { tally: Tally }

const SHAPES = new Map(
  Object.entries(FROM_PROXY).map(([kind, schema]: [string, TSchema & { properties: object }]) => [kind, shapeOf(schema)]),
)

function shapeOf(schema: TSchema & { properties: object }) {
  return { fits: Compile(schema), names: Object.keys(schema.properties) }
}

/** @returns null if the line is no frame, so the sender is not the proxy. Unknown fields are ignored. */
export function parseFrame(line: string): FromProxy | null {
  const said = recordOf(parsed(line))
  const [kind = ''] = Object.keys(said)
  const shape = SHAPES.get(kind)
  const body = readable(kind, recordOf(said[kind]))
  if (shape === undefined || !shape.fits.Check(body)) return null
  const known = shape.names.filter((name) => Object.hasOwn(body, name)).map((name) => [name, body[name]])
  const frame = Object.fromEntries(known) as Record<string, unknown>
  if (kind === 'tally') frame['refused'] = Object.entries(recordOf(frame['refused']))
  return { [kind]: frame } as FromProxy
}

/** Replaces invalid values of fields that are not worth a refusal of the frame. */
function readable(kind: string, body: Record<string, unknown>): Record<string, unknown> {
  if (kind === 'tally') return { ...body, refused: knownCounts(recordOf(body['refused'])) }
  if (kind !== 'ask') return body
  return { ...body, websocket: body['websocket'] === true, method: textOf(body['method']), client: textOf(body['client']) }
}

/** Drops unknown reasons, because a metric label must never be text from outside. */
function knownCounts(many: Record<string, unknown>): Partial<Record<PortRefusal, number>> {
  const known = (Object.keys(PORT_REFUSALS) as PortRefusal[]).flatMap((reason): [PortRefusal, number][] => {
    const count = Object.hasOwn(many, reason) ? many[reason] : 0
    return isCount(count) && count > 0 ? [[reason, count]] : []
  })
  return Object.fromEntries(known)
}

const TEXT_MAX = 256

function textOf(value: unknown): string {
  return typeof value === 'string' && value.length <= TEXT_MAX ? value : ''
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch {
    return null
  }
}

function recordOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0
}
