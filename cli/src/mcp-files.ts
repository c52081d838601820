import { z } from './mcp-library.ts'
import { CHARACTERS_MAX, offset, path, resultOf, outputOf, type Tool, tool, workspace } from './mcp-tool.ts'

const ENTRIES_MAX = 500
const MATCHES_MAX = 100
const LINE_CHARACTERS_MAX = 200

const edits = z
  .array(z.object({ old_text: z.string(), new_text: z.string(), replace_all: z.boolean().optional() }))
  .min(1)
  .describe('Each old_text occurs exactly once, unless replace_all is set')

export const FILE_TOOLS: Tool[] = [
  tool(
    {
      set: 'files',
      name: 'read_file',
      title: 'Read a file',
      description: 'Read a file of text. A large one is read on from next_offset.',
      input: { workspace, path, offset },
      output: { text: z.string(), offset: z.number(), next_offset: z.number().optional(), binary: z.boolean().optional() },
      effect: 'reads',
    },
    async (budget, asked) => {
      const from = asked.offset ?? 0
      const bytes = await (await budget.find(asked.workspace)).files.read(asked.path, { offset: from, length: CHARACTERS_MAX })
      const { text, binary } = outputOf(new TextDecoder().decode(bytes))
      const more = bytes.length === CHARACTERS_MAX ? { next_offset: from + bytes.length } : {}
      return resultOf({ text, offset: from, ...more, ...(binary ? { binary } : {}) })
    },
  ),
  tool(
    {
      set: 'files',
      name: 'write_file',
      title: 'Write a file',
      description: 'Write a file, whole. Directories above it are made.',
      input: { workspace, path, content: z.string() },
      output: { path: z.string(), bytes_written: z.number() },
      effect: 'destroys',
    },
    async (budget, asked) => {
      const { path: at, bytes_written } = await (await budget.open(asked.workspace)).files.write(asked.path, asked.content)
      return resultOf({ path: at, bytes_written })
    },
  ),
  tool(
    {
      set: 'files',
      name: 'patch_file',
      title: 'Change a file',
      description: 'Change a file by edits: all of them, or none.',
      input: { workspace, path, edits },
      output: { revision: z.string(), replacements: z.number() },
      effect: 'destroys',
    },
    async (budget, asked) => {
      const { revision, replacements } = await (await budget.find(asked.workspace)).files.patch(asked.path, { edits: asked.edits as never })
      return resultOf({ revision, replacements })
    },
  ),
  tool(
    {
      set: 'files',
      name: 'search_files',
      title: 'Search files',
      description: `Find lines in files, ${MATCHES_MAX} at most.`,
      input: { workspace, path, pattern: z.string().describe('A literal, or an RE2 expression with regex'), regex: z.boolean().optional() },
      output: { matches: z.array(z.string()), truncated: z.boolean() },
      effect: 'reads',
    },
    async (budget, asked) => {
      const request = { path: asked.path, pattern: asked.pattern, regex: asked.regex ?? false, max_matches: MATCHES_MAX }
      const { matches, truncated } = await (await budget.find(asked.workspace)).files.search(request)
      return resultOf({
        matches: matches.map(({ path: at, line, text }) => `${at}:${line}: ${text.slice(0, LINE_CHARACTERS_MAX)}`),
        truncated,
      })
    },
  ),
  tool(
    {
      set: 'files',
      name: 'list_files',
      title: 'List a directory',
      description: 'What a directory holds.',
      input: { workspace, path },
      output: {
        entries: z.array(z.object({ name: z.string(), type: z.string(), size: z.number() })),
        truncated: z.boolean(),
      },
      effect: 'reads',
    },
    async (budget, asked) => {
      const { entries, truncated } = await (await budget.find(asked.workspace)).files.list(asked.path, { limit: ENTRIES_MAX })
      return resultOf({ entries: entries.map(({ name, type, size }) => ({ name, type, size })), truncated })
    },
  ),
  tool(
    {
      set: 'files',
      name: 'make_directory',
      title: 'Make a directory',
      description: 'Make a directory, and those above it.',
      input: { workspace, path },
      output: { path: z.string() },
      effect: 'changes',
    },
    async (budget, asked) => {
      const { path: at } = await (await budget.open(asked.workspace)).files.mkdir(asked.path)
      return resultOf({ path: at })
    },
  ),
  tool(
    {
      set: 'files',
      name: 'move_file',
      title: 'Move a file',
      description: 'Move or rename a file or a directory.',
      input: { workspace, from: path, to: path, overwrite: z.boolean().optional().describe('Takes the place of what is there') },
      output: { path: z.string() },
      effect: 'destroys',
    },
    async (budget, { workspace: name, from, to, overwrite = false }) => {
      const { path: at } = await (await budget.find(name)).files.move(from, to, { overwrite })
      return resultOf({ path: at })
    },
  ),
  tool(
    {
      set: 'files',
      name: 'remove_file',
      title: 'Remove a file',
      description: 'Remove a file, or with recursive a directory and all below it.',
      input: { workspace, path, recursive: z.boolean().optional() },
      output: { removed: z.string() },
      effect: 'destroys',
    },
    async (budget, { workspace: name, path: at, recursive = false }) => {
      await (await budget.find(name)).files.remove(at, { recursive })
      return resultOf({ removed: at })
    },
  ),
]
