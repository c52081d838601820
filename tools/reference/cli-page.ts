import { execFileSync } from 'node:child_process'
import path from 'node:path'
import type { Flag } from '../../cli/src/command.ts'
import { EXAMPLES } from './cli-notes.ts'

const MAIN = path.resolve(import.meta.dirname, '../../cli/src/main.ts')
const HEAD = `# Command line

Made by \`npm run reference\` from the table of commands that \`berth help\` and completion use. [The guide](../guides/cli.md) and [the pages by task](../guides/README.md) show how it is used.

\`WORKSPACE\` is a key or an id. All commands take \`--json\` (data as JSON on standard output), \`--profile NAME\`, \`--url URL\` and \`--help\`. \`BERTH_URL\` and \`BERTH_API_KEY\` win over a profile. Data go to standard output, all else to standard error. The exit code is 0, 1 for what was refused or failed ([errors](errors.md)), 2 for a command that is not well said; of \`exec\`, \`shell\` and \`logs\` it is the command's own, 128 and the signal that ended it, 127 where it could not start, or 125 where nobody knows.
`

export interface DescribedCommand {
  name: string
  takes?: string
  does: string
  flags: Record<string, Flag>
}

export function describedCommands(): DescribedCommand[] {
  const env = { PATH: process.env['PATH'] ?? '' }
  const words = ['--disable-warning=ExperimentalWarning', MAIN, 'help', '--json']
  return JSON.parse(execFileSync(process.execPath, words, { encoding: 'utf8', env, timeout: 60_000 })) as DescribedCommand[]
}

export function cliPage(): string {
  const commands = describedCommands()
  const names = commands.map(({ name }) => `[${name}](#berth-${name.replaceAll(' ', '-')})`)
  return [HEAD, `${names.join(' · ')}\n`, ...commands.map(sectionOf)].join('\n')
}

function sectionOf({ name, takes = '', does, flags }: DescribedCommand): string {
  const options = Object.entries(flags).map(
    ([flag, { value, says }]) => `| \`--${flag}${value === undefined ? '' : ` ${value}`}\` | ${says} |`,
  )
  const table = options.length > 0 ? ['| Option | |', '| --- | --- |', ...options, ''] : []
  const example = EXAMPLES[name]
  return [
    `## berth ${name}\n`,
    `\`berth ${`${name} ${takes}`.trimEnd()}\`: ${does}.\n`,
    ...table,
    ...(example === undefined ? [] : ['```sh', example, '```', '']),
  ].join('\n')
}
