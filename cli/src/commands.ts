import type { CliCommand, Flag, Run } from './command.ts'
import { COMPLETION } from './completion.ts'
import { DRAFTS } from './drafts.ts'
import { EXEC_FLAGS } from './exec-flags.ts'
import { NOUNS } from './nouns.ts'
import { TEMPLATE_FLAG, WORKSPACES } from './workspaces.ts'

/** Loads a command's module when it runs: loading all takes longer than most commands. */
const later =
  (read: () => Promise<Run>): Run =>
  async (context, words) =>
    (await read())(context, words)

const SSH_FLAGS = {
  user: { type: 'string', value: 'USER', says: 'user of the workspace to log in as, user where it is not said' },
} as const satisfies Record<string, Flag>

export const COMMANDS: CliCommand[] = [
  {
    name: 'exec',
    takes: "WORKSPACE [--] COMMAND …, or WORKSPACE 'LINE'",
    does: 'run a command, or a line by bash: standard input is piped in, signals are passed on, its exit code is this one',
    flags: EXEC_FLAGS,
    words: [1, 1],
    runs: true,
    run: later(async () => (await import('./exec.ts')).exec),
  },
  {
    name: 'shell',
    takes: 'WORKSPACE [COMMAND …]',
    does: 'open a terminal, or come back to one with --id; Ctrl-] leaves it open',
    flags: { id: { type: 'string', value: 'ID', says: 'the terminal to come back to' } },
    words: [1, 1],
    runs: true,
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
      delete: { type: 'boolean', says: 'also delete what the source does not have' },
      'dry-run': { type: 'boolean', says: 'print what would be done' },
      exclude: {
        type: 'string',
        multiple: true,
        value: 'NAME',
        says: 'leave out what has this name or lies at this path, on both sides; may be given several times',
      },
    },
    words: [2, 2],
    run: later(async () => (await import('./sync.ts')).sync),
  },
  {
    name: 'port',
    takes: 'WORKSPACE PORT',
    does: 'forward a local port to one of the workspace, until Ctrl-C; --link prints a link for a browser, --close closes it',
    flags: {
      local: { type: 'string', value: 'PORT', says: 'local port; any free one where it is not said' },
      link: { type: 'boolean', says: 'print a link for a browser' },
      close: { type: 'boolean', says: 'close the port: its links and tokens end' },
    },
    words: [2, 2],
    run: later(async () => (await import('./port.ts')).port),
  },
  {
    name: 'mcp',
    does: 'serve the tools of workspaces by the Model Context Protocol, over stdio or --listen PORT',
    flags: {
      prefix: { type: 'string', value: 'PREFIX', says: 'keys of the workspaces that it may use begin so, mcp- where it is not said' },
      tools: {
        type: 'string',
        value: 'SET,…',
        says: 'some of exec,files,terminal,browser,ports,lifecycle; all of them where it is not said',
      },
      template: TEMPLATE_FLAG,
      'calls-max': { type: 'string', value: 'N', says: 'calls of tools until the server refuses, 10000 where it is not said' },
      'workspaces-max': { type: 'string', value: 'N', says: 'workspaces that it may open, 10 where it is not said' },
      listen: { type: 'string', value: 'PORT', says: 'port of this computer to serve streamable HTTP on; needs BERTH_MCP_TOKEN' },
    },
    words: [0, 0],
    run: later(async () => (await import('./mcp.ts')).serveMcp),
  },
  {
    name: 'ssh',
    takes: 'WORKSPACE [COMMAND …]',
    does: 'run ssh of this computer; ssh-config is for its options, scp, rsync and editors',
    flags: SSH_FLAGS,
    words: [1, 1],
    runs: true,
    run: later(async () => (await import('./ssh.ts')).ssh),
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
    flags: SSH_FLAGS,
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
      file: { type: 'string', value: 'PATH', says: 'recipe or Dockerfile in FOLDER; recipe.json, else Dockerfile where it is not said' },
      'build-arg': {
        type: 'string',
        multiple: true,
        value: 'NAME=VALUE',
        says: 'NAME=VALUE of a build argument; may be given several times',
      },
      description: { type: 'string', value: 'TEXT', says: 'text that is shown with the version' },
      publish: { type: 'boolean', says: 'let workspaces be opened with the version' },
    },
    words: [1, 2],
    run: later(async () => (await import('./templates.ts')).buildTemplate),
  },
  {
    name: 'templates test',
    takes: 'SLUG VERSION [COMMAND …]',
    does: 'open a version, published or not, in a session workspace; with a command: run it there, and end the workspace',
    words: [2, 2],
    runs: true,
    run: later(async () => (await import('./templates.ts')).testTemplate),
  },
  ...DRAFTS,
  COMPLETION,
]
