import { type CliCommand, usageError } from './command.ts'

const SCRIPTS: Record<string, string> = {
  bash: '_berth() { COMPREPLY=($(compgen -W "$(berth complete "${COMP_WORDS[@]:1:COMP_CWORD-1}")" -- "${COMP_WORDS[COMP_CWORD]}")); }; complete -F _berth berth',
  zsh: '#compdef berth\n_berth() { compadd -- ${(f)"$(berth complete ${words[2,$((CURRENT-1))]})"} }; compdef _berth berth',
  fish: "complete -c berth -f -a '(berth complete (commandline -opc)[2..])'",
}

export const COMPLETION: CliCommand = {
  name: 'completion',
  takes: 'bash|zsh|fish',
  does: 'print what a shell sources to complete commands: source <(berth completion bash)',
  words: [1, 1],
  run({ print }, [shell = '']) {
    const script = SCRIPTS[shell]
    if (script === undefined) throw usageError(`${shell} is not known`, 'berth completion bash')
    print(script)
    return 0
  },
}

/** Completion works without the service and without a key. */
export function completionOf(commands: readonly CliCommand[], words: readonly string[]): string[] {
  const fitting = commands.map(({ name }) => name.split(' ')).filter((name) => words.every((word, at) => name[at] === word))
  const next = [...new Set(fitting.map((name) => name[words.length]).filter((word) => word !== undefined))]
  if (next.length > 0) return next
  const command = commands.find(({ name }) => name.split(' ').every((word, at) => words[at] === word))
  return command ? Object.keys(command.flags ?? {}).map((flag) => `--${flag}`) : []
}
