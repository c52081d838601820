export { Berth, type BerthOptions, type OpenOptions } from './berth.ts'
export type { WorkspaceQuery } from './nouns.ts'
export { type OperationOptions, type RunsQuery, Workspace } from './workspace.ts'
export {
  Command,
  type CommandEnding,
  CommandError,
  type CommandLine,
  type CommandResult,
  type ExecOptions,
  type OutputChunk,
  type OutputOptions,
} from './exec.ts'
export { type ShellOptions, Terminal, type TerminalChunk, type TerminalEnding } from './shell.ts'
export type { Content, Files, ReadOptions, WriteOptions } from './files.ts'
export type { WatchEvent, WatchOptions } from './watch.ts'
export type { List, Page } from './list.ts'
export type { CallOptions } from './transport.ts'
export {
  BadRequestError,
  BerthError,
  ConflictError,
  ConnectionError,
  DeadlineError,
  DiskFullError,
  ForbiddenError,
  NotFoundError,
  OperationError,
  PaymentRequiredError,
  RangeError,
  RateLimitedError,
  TooLargeError,
  UnauthenticatedError,
  UnavailableError,
  ValidationError,
  WorkspaceUnavailableError,
} from './errors.ts'
export type * as wire from './schemas.ts'
