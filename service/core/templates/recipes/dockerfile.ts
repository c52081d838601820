import { LIMITS } from '../../../../contract/limits.ts'
import type { CopyStep, Recipe, RunStep } from '../../../../contract/schemas/recipes.ts'
import { UPLOAD_BASE } from './check.ts'
import { type DockerfileProblem, type Instruction, splitDockerfile } from './dockerfile-lines.ts'
import { execForm, expand, splitWords, TooLong, type Variables } from './dockerfile-words.ts'

export type Translated = { recipe: Recipe; warnings: DockerfileProblem[] } | { problems: DockerfileProblem[] }

interface State {
  base: string | null
  /** ARG values, visible to instructions and commands, but not to workspaces. */
  args: Map<string, string>
  /** ARG values before FROM, visible to FROM, and to a later ARG of the same name. */
  outer_args: Map<string, string>
  env: Map<string, string>
  shell: string[]
  cwd: string
  /** True if no command has run in `cwd` yet, so it may not exist. */
  cwd_is_new: boolean
  user: string
  port: number | null
  cmd: string[] | null
  entrypoint: string[] | null
  steps: (RunStep | CopyStep)[]
  characters: number
  expanded_characters: number
}

class UnsupportedInstructionError extends Error {}

const { recipe_bytes_max, steps_max, dockerfile_variables_max } = LIMITS.build
/** Limits the expanded text, because a long variable may be expanded in each of 100,000 words. */
const EXPANDED_MAX = 4 * recipe_bytes_max
const SHELL = ['/bin/sh', '-c']

const IGNORED: Readonly<Record<string, string>> = {
  HEALTHCHECK: 'a service is ready when its port answers',
  ONBUILD: 'it is for what is built on this image',
  STOPSIGNAL: 'a service is ended by SIGTERM',
  VOLUME: 'all files of a workspace stay. RUN mkdir makes the directory',
}

/** Every translated step has its complete environment in `env`. */
export function translateDockerfile(text: string, build_args: Readonly<Record<string, string>> = {}): Translated {
  const { instructions, problems } = splitDockerfile(text)
  const state: State = {
    base: null,
    args: new Map(),
    outer_args: new Map(),
    env: new Map(),
    shell: SHELL,
    cwd: '/',
    cwd_is_new: false,
    user: 'root',
    port: null,
    cmd: null,
    entrypoint: null,
    steps: [],
    characters: 0,
    expanded_characters: 0,
  }
  const declared = new Set<string>()
  const warnings: DockerfileProblem[] = []
  for (const instruction of instructions) {
    try {
      if (state.base === null && !['FROM', 'ARG'].includes(instruction.keyword))
        throw new UnsupportedInstructionError('FROM must come first')
      const ignored = IGNORED[instruction.keyword]
      if (ignored === undefined) read(state, instruction, { build_args, declared })
      else warnings.push({ line: instruction.line, message: `${instruction.keyword} is ignored: ${ignored}` })
    } catch (error) {
      if (!(error instanceof UnsupportedInstructionError || error instanceof TooLong)) throw error
      const message = error instanceof TooLong ? `with its variables it has more than ${recipe_bytes_max} characters` : error.message
      problems.push({ line: instruction.line, message })
    }
  }
  if (state.base === null && problems.length === 0) problems.push({ line: 1, message: 'it has no FROM' })
  for (const name of Object.keys(build_args)) {
    if (!declared.has(name)) problems.push({ line: 1, message: `no ARG says the build argument ${name}` })
  }
  return problems.length > 0 ? { problems: problems.sort((a, b) => a.line - b.line) } : { recipe: recipeOf(state), warnings }
}

interface Arguments {
  build_args: Readonly<Record<string, string>>
  declared: Set<string>
}

function read(state: State, instruction: Instruction, given: Arguments): void {
  switch (instruction.keyword) {
    case 'FROM':
      return readFrom(state, instruction)
    case 'ARG':
      return readArg(state, instruction, given)
    case 'ENV':
      return readEnv(state, instruction)
    case 'RUN':
      return readRun(state, instruction)
    case 'COPY':
    case 'ADD':
      return readCopy(state, instruction)
    case 'WORKDIR':
      state.cwd = resolved(state.cwd, oneWord(state, instruction))
      state.cwd_is_new = true
      return
    case 'USER':
      state.user = userOf(oneWord(state, instruction))
      return
    case 'EXPOSE':
      return readExpose(state, instruction)
    case 'CMD':
      state.cmd = commandOf(state, instruction)
      return
    case 'ENTRYPOINT':
      state.entrypoint = commandOf(state, instruction)
      return
    case 'SHELL':
      state.shell = execForm(instruction.rest) ?? refuse('SHELL takes a list in JSON')
      if (state.shell.length === 0) refuse('SHELL takes a list with a program')
      return
    case 'LABEL':
    case 'MAINTAINER':
      return // metadata of the image only
    default:
      refuse(
        `${instruction.keyword.slice(0, 40)} is not one of FROM, ARG, ENV, RUN, COPY, ADD, WORKDIR, USER, EXPOSE, CMD, ENTRYPOINT, SHELL, LABEL`,
      )
  }
}

function readFrom(state: State, instruction: Instruction): void {
  if (state.base !== null) refuse('a second FROM: builds of several stages are not understood')
  const { flags, words } = flagsAndWords(state, instruction)
  if (flags.size > 0) refuse(`FROM does not take --${[...flags.keys()].join(', --')}`)
  const [base, as, , ...more] = words
  if (base === undefined || more.length > 0 || (as !== undefined && as.toUpperCase() !== 'AS'))
    refuse('FROM takes a template, as in FROM base@1')
  state.base = base.replace(/^([a-z0-9-]+):([1-9][0-9]*)$/, '$1@$2')
  if (!/^[a-z0-9][a-z0-9-]*(@[1-9][0-9]*)?$/.test(state.base) && !UPLOAD_BASE.test(state.base))
    refuse(
      `FROM takes a template or an upload, as in FROM base, FROM base@1 or FROM upload:ID: ${base.slice(0, 100)} is none, and images of registries are not fetched`,
    )
  state.outer_args = state.args
  state.args = new Map()
}

function readArg(state: State, instruction: Instruction, { build_args, declared }: Arguments): void {
  for (const word of splitWords(instruction.rest, instruction.escape) ?? refuse('a quote has no end')) {
    const [, name = '', value] = /^([A-Za-z_][A-Za-z0-9_]*)(?:=([^]*))?$/.exec(word) ?? refuse('ARG takes NAME or NAME=value')
    declared.add(name)
    const told = Object.hasOwn(build_args, name) ? build_args[name] : undefined
    if (told !== undefined) setVariable(state.args, name, told)
    else if (value !== undefined) setVariable(state.args, name, expanded(state, instruction, value))
    else if (state.outer_args.has(name)) setVariable(state.args, name, state.outer_args.get(name) ?? '')
  }
}

function readEnv(state: State, instruction: Instruction): void {
  const words = splitWords(instruction.rest, instruction.escape) ?? refuse('a quote has no end')
  const [first = ''] = words
  if (first === '') refuse('ENV takes NAME=value')
  if (!first.includes('=')) {
    const value = instruction.rest.slice(first.length).trim()
    if (value === '') refuse('ENV takes NAME=value')
    return setEnv(state, first, expanded(state, instruction, value))
  }
  const pairs = words.map((word) => /^([^=]+)=([^]*)$/.exec(word) ?? refuse('ENV takes NAME=value'))
  // All values are expanded first, with the environment before this line.
  const values = pairs.map(([, name = '', value = '']) => [name, expanded(state, instruction, value)] as const)
  for (const [name, value] of values) setEnv(state, name, value)
}

function setEnv(state: State, name: string, value: string): void {
  if (!/^[A-Za-z_][A-Za-z0-9_]{0,127}$/.test(name)) refuse(`ENV: ${name.slice(0, 100)} is no name of a variable`)
  setVariable(state.env, name, value)
}

function setVariable(variables: Map<string, string>, name: string, value: string): void {
  variables.set(name, value)
  if (variables.size > dockerfile_variables_max) refuse(`it has more than ${dockerfile_variables_max} variables`)
}

function readRun(state: State, instruction: Instruction): void {
  const { rest, heredocs } = instruction
  if (rest === '') refuse('RUN takes a command')
  if (/^--[a-z]/.test(rest)) refuse(`RUN does not take ${/^\S*/.exec(rest)?.[0].slice(0, 100) ?? ''}`)
  add(state, { run: execForm(rest) ?? inShell(state, scriptOf(rest, heredocs)) })
}

function scriptOf(rest: string, heredocs: Instruction['heredocs']): string {
  const [only] = heredocs
  if (only === undefined) return rest
  if (heredocs.length === 1 && /^<<-?(["']?)[A-Za-z0-9_]+\1$/.test(rest)) {
    if (only.content.startsWith('#!')) refuse('a document of RUN is run by the shell: #! is not understood')
    return only.content
  }
  // The content is passed on unchanged, because the tabs of <<- are already removed.
  return [rest, ...heredocs.map(({ name, content }) => `${content}${name}`)].join('\n') + '\n'
}

function inShell({ shell }: State, script: string): RunStep['run'] {
  return [...shell, script]
}

function readCopy(state: State, instruction: Instruction): void {
  const { flags, words } = flagsAndWords(state, instruction)
  const unknown = [...flags.keys()].filter((name) => !['chown', 'chmod', 'link'].includes(name))
  if (unknown.includes('from')) refuse(`${instruction.keyword} --from: builds of several stages are not understood`)
  if (unknown.length > 0) refuse(`${instruction.keyword} does not take --${unknown.join(', --')}`)
  const to = words.at(-1)
  const sources = words.slice(0, -1)
  if (to === undefined || sources.length === 0) refuse(`${instruction.keyword} takes what to copy, and where to`)
  const owner = flags.get('chown')
  const user = owner === undefined ? {} : { user: userOf(owner) }
  const mode = flags.has('chmod') ? { mode: modeOf(flags.get('chmod') ?? '') } : {}
  const target = resolved(state.cwd, to)
  if (instruction.heredocs.length > 0) return writeDocuments(state, instruction, { to: target, ...user, ...mode })
  if (instruction.keyword === 'ADD') sources.forEach(refuseAdd)
  state.steps.push({ copy: sources.map((source) => source.replace(/^\/+/, '') || '.'), to: target, ...user, ...mode })
}

function refuseAdd(source: string): void {
  if (/^[a-z+]+:\/\/|^git@/.test(source)) refuse('ADD of an address is not understood: RUN curl fetches it')
  if (/\.(tar|tgz|tar\.(gz|xz|bz2|zst))$/.test(source)) refuse('ADD does not unpack archives: COPY it, and RUN tar')
}

function writeDocuments(
  state: State,
  { heredocs, keyword, rest, escape }: Instruction,
  { to, user, mode }: { to: string; user?: string; mode?: string },
) {
  const sources = (splitWords(rest, escape) ?? []).filter((word) => !word.startsWith('--')).slice(0, -1)
  if (sources.length !== heredocs.length) refuse(`${keyword} takes either files or documents`)
  const to_directory = to.endsWith('/')
  if (heredocs.length > 1 && !to_directory) refuse(`${keyword} of several documents goes to a directory, which ends with /`)
  const commands = heredocs.map(({ name, content, expands }) => {
    const text = expands ? expandDocument(state, content, escape) : content
    const path = quoted(to_directory ? `${to}${name}` : to)
    const base64 = Buffer.from(text).toString('base64')
    const then = [user === undefined ? '' : ` && chown ${quoted(user)}: ${path}`, ` && chmod ${mode ?? '644'} ${path}`].join('')
    return `mkdir -p "$(dirname ${path})" && printf %s ${base64} | base64 -d > ${path}${then}`
  })
  state.steps.push({ run: commands.join(' && '), user: 'root', env: {} })
}

function expandDocument(state: State, text: string, escape: string): string {
  // Quotes have no meaning in a heredoc.
  return text
    .split(/(["'])/)
    .map((part) =>
      part === '"' || part === "'"
        ? part
        : spent(state, expand(part, lookup(state), escape) ?? refuse('a variable of the document is not understood')),
    )
    .join('')
}

function readExpose(state: State, instruction: Instruction): void {
  for (const word of flagsAndWords(state, instruction).words) {
    const [, port = '', protocol = 'tcp'] = /^([0-9]{1,5})(?:\/([a-z]+))?$/i.exec(word) ?? refuse('EXPOSE takes ports')
    if (protocol.toLowerCase() !== 'tcp') refuse('EXPOSE takes ports of TCP alone')
    if (Number(port) < 1 || Number(port) > 65_535) refuse('EXPOSE takes ports from 1 to 65535')
    state.port ??= Number(port)
  }
}

function commandOf(state: State, { rest, keyword }: Instruction): string[] {
  const argv = execForm(rest) ?? [...state.shell, rest]
  if (rest === '') refuse(`${keyword} takes a command`)
  return argv
}

function add(state: State, step: Pick<RunStep, 'run'>): void {
  const { user, cwd } = state
  if (state.steps.length >= steps_max) refuse(`it has more than ${steps_max} steps`)
  const variables = [...state.args, ...state.env]
  for (const [name, value] of variables) state.characters += name.length + value.length
  if (state.characters > recipe_bytes_max) refuse(`the environments of its steps have more than ${recipe_bytes_max} characters together`)
  state.steps.push({ ...step, user, cwd, env: Object.fromEntries(variables) })
  state.cwd_is_new = false
}

/** Looks up in place, without a copy of the maps for each word. */
function lookup({ args, env }: Pick<State, 'args' | 'env'>): Variables {
  return { get: (name) => env.get(name) ?? args.get(name) }
}

function expanded(state: State, { escape }: Instruction, text: string): string {
  return spent(state, expand(text, lookup(state), escape) ?? refuse('a variable is written in a way that is not understood'))
}

function spent(state: State, text: string): string {
  state.expanded_characters += text.length
  if (state.expanded_characters > EXPANDED_MAX) throw new TooLong()
  return text
}

function flagsAndWords(state: State, instruction: Instruction): { flags: Map<string, string>; words: string[] } {
  const flags = new Map<string, string>()
  let { rest } = instruction
  for (let found; (found = /^--([a-z-]+)(?:=(\S*))?\s*/.exec(rest)) !== null; rest = rest.slice(found[0].length)) {
    flags.set(found[1] ?? '', expanded(state, instruction, found[2] ?? ''))
  }
  const words = execForm(rest) ?? splitWords(rest, instruction.escape) ?? refuse('a quote has no end')
  return { flags, words: words.map((word) => expanded(state, instruction, word)) }
}

function oneWord(state: State, instruction: Instruction): string {
  const text = expanded(state, instruction, instruction.rest.trim())
  return text === '' ? refuse(`${instruction.keyword} takes one word`) : text
}

function userOf(text: string): string {
  const [user = '', group] = text.split(':')
  if (user === '') refuse('a user is missing')
  if (group !== undefined && group !== '' && group !== user) refuse('a group of another name than the user is not understood')
  return user
}

function modeOf(text: string): string {
  return /^[0-7]{3,4}$/.test(text) ? text : refuse('--chmod takes octal digits')
}

function resolved(cwd: string, path: string): string {
  const whole = path.startsWith('/') ? path : `${cwd}/${path}`
  const parts: string[] = []
  for (const part of whole.split('/')) {
    if (part === '..') parts.pop()
    else if (part !== '' && part !== '.') parts.push(part)
  }
  const ends = /(^|\/)\.?$/.test(path) && parts.length > 0 ? '/' : ''
  return `/${parts.join('/')}${ends}`
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}

function recipeOf(state: State): Recipe {
  const { base, env, entrypoint, cmd, port, steps, cwd_is_new } = state
  const cwd = state.cwd.replace(/(.)\/$/, '$1')
  const made = cwd_is_new && cwd !== '/' ? [{ run: ['mkdir', '-p', cwd], user: 'root', env: {} }] : []
  const argv = [...(entrypoint ?? []), ...(cmd ?? [])]
  const ready = port === null ? {} : { ready: { port } }
  return {
    ...(base === null ? {} : { base }),
    steps: [...steps, ...made],
    env: Object.fromEntries(env),
    ...(argv.length === 0 ? {} : { services: [{ name: 'main', argv, cwd, user: state.user, restart: 'on_failure', ...ready }] }),
  }
}

function refuse(message: string): never {
  throw new UnsupportedInstructionError(message)
}
