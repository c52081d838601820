import type { Budget, ToolSet } from './mcp-budget.ts'
import { z } from './mcp-library.ts'

/** Longer output is cut. The model can read the rest with an offset. */
export const CHARACTERS_MAX = 20_000

export interface Result {
  [name: string]: unknown
  content: ({ type: 'text'; text: string } | { type: 'image'; data: string; mimeType: string })[]
  structuredContent?: Record<string, unknown>
  isError?: boolean
}

type Shape = z.ZodRawShape

export interface Tool {
  set: ToolSet
  name: string
  title: string
  description: string
  input: Shape
  /** Absent if the tool returns an image. */
  output?: Shape
  effect: 'reads' | 'changes' | 'destroys'
  run: (budget: Budget, asked: never) => Promise<Result>
}

export function tool<Input extends Shape>(
  described: Omit<Tool, 'run' | 'input'> & { input: Input },
  run: (budget: Budget, asked: z.infer<z.ZodObject<Input>>) => Promise<Result>,
): Tool {
  return { ...described, run: run }
}

export const workspace = z.string().min(1).describe('Name of the workspace')
export const path = z.string().min(1).describe('A path in the workspace; a relative one is of /home/user')
export const offset = z.number().int().min(0).optional().describe('From this byte on; absent: from the first')

export function resultOf(value: Record<string, unknown>): Result {
  return { content: [{ type: 'text', text: JSON.stringify(value, null, 1) }], structuredContent: value }
}

/** `next_offset` is set if the text was cut. */
export interface ToolOutput {
  [name: string]: unknown
  text: string
  next_offset?: number
  binary?: boolean
}
export const shownShape = z.object({ text: z.string(), next_offset: z.number().optional(), binary: z.boolean().optional() })

const BINARY = /\0/

/** Binary output would cost thousands of useless tokens, so only its size is returned. */
export function outputOf(text: string, from = 0): ToolOutput {
  if (BINARY.test(text)) return { text: `(${Buffer.byteLength(text)} bytes that are no text)`, binary: true }
  if (text.length <= CHARACTERS_MAX) return { text }
  // Does not separate the two halves of a surrogate pair.
  const at = /[\uD800-\uDBFF]/.test(text[CHARACTERS_MAX - 1] ?? '') ? CHARACTERS_MAX - 1 : CHARACTERS_MAX
  const kept = text.slice(0, at)
  return { text: kept, next_offset: from + Buffer.byteLength(kept) }
}
