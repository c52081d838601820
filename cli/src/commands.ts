import type { CliCommand, Run } from './command.ts'
import { COMPLETION } from './completion.ts'
import { DRAFTS } from './drafts.ts'
import { EXEC_FLAGS } from './exec-flags.ts'
import { NOUNS } from './nouns.ts'
import { WORKSPACES } from './workspaces.ts'

/** A module is read where its command runs: what all of them need of Node.js takes longer to read than most commands take. */
const later =
  (read: () => Promise<Run>): Run =>
  async (context, words) =>
    (await read())(context, words)

export const COMMANDS: CliCommand[] = [
  {
    name: 'exec',
    takes: "WORKSPACE -- COMMAND …, or WORKSPACE 'LINE'",
    does: 'run a command, or a line by bash: standard input is piped in, signals are passed on, its exit code is this one',
    flags: EXEC_FLAGS,
    words: [1, 2],
    run: later(async () => (await import('./exec.ts')).exec),
  },
  {
    name: 'shell',
    takes: 'WORKSPACE [-- COMMAND …]',
    does: 'open a terminal, or come back to one with --id; Ctrl-] leaves it open',
    flags: { id: { type: 'string' } },
    words: [1, 1],
    run: later(async () => (await import('./terminal.ts')).shell),
  },
  {
    name: 'cp',
    takes: 'FROM TO',
    does: 'copy a file or a folder, into a folder that exists under its own name; one of both is WORKSPACE:PATH',
    words: [2, 2],
    run: later(async () => (await import('./copy.ts')).copy),
  },
  {
    name: 'sync',
    takes: 'FROM TO',
    does: 'make folder TO as folder FROM is, and carry only what changed; one of both is WORKSPACE:/path',
    flags: {
      delete: { type: 'boolean' },
      'dry-run': { type: 'boolean' },
      exclude: { type: 'string', multiple: true },
    },
    words: [2, 2],
    run: later(async () => (await import('./sync.ts')).sync),
  },
  {
    name: 'port',
    takes: 'WORKSPACE PORT',
    does: 'forward a local port to one of the workspace, until Ctrl-C; --link prints a link for a browser, --close closes it',
    flags: { local: { type: 'string' }, link: { type: 'boolean' }, close: { type: 'boolean' } },
    words: [2, 2],
    run: later(async () => (await import('./port.ts')).port),
  },
  {
    name: 'mcp',
    does: 'serve the tools of workspaces by the Model Context Protocol, over stdio or --listen PORT',
    flags: {
      prefix: { type: 'string' },
      tools: { type: 'string' },
      template: { type: 'string' },
      'calls-max': { type: 'string' },
      'workspaces-max': { type: 'string' },
      listen: { type: 'string' },
    },
    words: [0, 0],
    run: later(async () => (await import('./mcp.ts')).serveMcp),
  },
  {
    name: 'ssh-config',
    does: 'print what lets ssh, scp, rsync and editors in: berth ssh-config >> ~/.ssh/config; then ssh WORKSPACE.berth',
    words: [0, 0],
    run: later(async () => (await import('./ssh.ts')).sshConfig),
  },
  {
    name: 'ssh-proxy',
    takes: 'WORKSPACE',
    does: 'what ssh runs as its ProxyCommand',
    words: [1, 1],
    run: later(async () => (await import('./ssh.ts')).sshProxy),
  },
  ...WORKSPACES,
  ...NOUNS,
  {
    name: 'templates build',
    takes: 'SLUG [FOLDER]',
    does: 'make a version by the recipe.json or the Dockerfile of a folder, with its files, and show what the build says',
    flags: {
      file: { type: 'string' },
      'build-arg': { type: 'string', multiple: true },
      description: { type: 'string' },
      publish: { type: 'boolean' },
    },
    words: [1, 2],
    run: later(async () => (await import('./templates.ts')).buildTemplate),
  },
  {
    name: 'templates test',
    takes: 'SLUG VERSION [-- COMMAND …]',
    does: 'open a version, published or not, in a session workspace; with a command: run it there, and end the workspace',
    words: [2, 2],
    run: later(async () => (await import('./templates.ts')).testTemplate),
  },
  ...DRAFTS,
  COMPLETION,
]
