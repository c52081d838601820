export const EXEC_FLAGS = {
  cwd: { type: 'string' },
  env: { type: 'string', multiple: true },
  user: { type: 'string' },
  timeout: { type: 'string' },
  tty: { type: 'boolean' },
  'no-tty': { type: 'boolean' },
  'no-stdin': { type: 'boolean' },
  detach: { type: 'boolean' },
  id: { type: 'string' },
} as const
