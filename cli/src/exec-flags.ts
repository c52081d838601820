import type { Flag } from './command.ts'

export const EXEC_FLAGS = {
  cwd: { type: 'string', value: 'PATH', says: 'directory to run in, /home/user where it is not said' },
  env: { type: 'string', multiple: true, value: 'NAME=VALUE', says: 'NAME=VALUE; may be given several times' },
  user: { type: 'string', value: 'USER', says: 'user of the workspace to run as' },
  timeout: { type: 'string', value: 'SECONDS', says: 'seconds, such as 0.5 or 60, until SIGTERM' },
  tty: { type: 'boolean', says: 'in a terminal' },
  'no-tty': { type: 'boolean', says: 'no terminal, also where there is one here' },
  'no-stdin': { type: 'boolean', says: 'leave standard input alone' },
  detach: { type: 'boolean', says: 'start it, print its id, and leave it' },
  id: { type: 'string', value: 'ID', says: 'name of the command, to come back to it; started again under it, it runs once' },
} as const satisfies Record<string, Flag>
