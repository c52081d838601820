import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Static, TSchema } from 'typebox'
import type * as audit from '../../contract/schemas/audit.ts'
import type { BrowserContent, BrowserScreenshot } from '../../contract/schemas/cell/browser.ts'
import type * as change from '../../contract/schemas/cell/change.ts'
import type { GitClone, GitCommit } from '../../contract/schemas/cell/git.ts'
import type { OutputEvent } from '../../contract/schemas/cell/session.ts'
import type { TerminalEvent } from '../../contract/schemas/cell/terminal.ts'
import type * as watch from '../../contract/schemas/cell/watch.ts'
import type * as operations from '../../contract/schemas/operations.ts'
import type { EstimateQuery } from '../../contract/schemas/spend.ts'
import type { PackageQuery } from '../../contract/schemas/template-packages.ts'
import type * as usage from '../../contract/schemas/usage.ts'
import type * as workspaces from '../../contract/schemas/workspaces.ts'
import type { Berth, Workspace } from '../../sdk/typescript/src/main.ts'
import type { StreamEvent } from '../../sdk/typescript/src/exec.ts'
import type { TerminalMessage } from '../../sdk/typescript/src/shell.ts'
import type { WatchMessage } from '../../sdk/typescript/src/watch.ts'

type Asked<Q extends TSchema> = Omit<Static<Q>, 'cursor' | 'limit'>
/** `any` would equal every type. */
type IsAny<A> = 0 extends 1 & A ? true : false
type Either<A, B> = true extends IsAny<A> | IsAny<B> ? true : false
type Same<A, B> = Either<A, B> extends true ? false : [Required<A>, Required<B>] extends [Required<B>, Required<A>] ? true : false
type Holds<A, B> = Either<A, B> extends true ? false : A extends B ? true : false
type First<Method extends (...taken: never[]) => unknown> = NonNullable<Parameters<Method>[0]>

/** A line whose types differ is an error of the type check. */
const CHECKED = {
  workspaces: true satisfies Same<First<Berth['workspaces']>, Asked<typeof workspaces.WorkspaceQuery>>,
  workspaces_of_organization: true satisfies Same<
    First<Berth['organizations']['workspaces']>,
    Asked<typeof workspaces.OrganizationWorkspaceQuery>
  >,
  audit: true satisfies Same<First<Berth['organizations']['audit']>, Asked<typeof audit.AuditQuery>>,
  series: true satisfies Same<First<Berth['usage']['series']>, Static<typeof usage.UsageQuery>>,
  series_of_workspace: true satisfies Same<First<Workspace['usage']>, Static<typeof usage.WorkspaceUsageQuery>>,
  estimate: true satisfies Same<First<Berth['usage']['estimate']>, Static<typeof EstimateQuery>>,
  operations: true satisfies Same<First<Workspace['operations']>, Asked<typeof operations.OperationQuery>>,
  packages: true satisfies Same<First<Berth['templates']['packages']>, Omit<Static<typeof PackageQuery>, 'cursor'>>,
  changes: true satisfies Same<First<Workspace['changes']['list']>, Omit<Asked<typeof change.ChangesQuery>, 'summary'>>,
  clone: true satisfies Same<First<Workspace['git']['clone']>, GitClone>,
  commit: true satisfies Same<First<Workspace['git']['commit']>, GitCommit>,
  screenshot: true satisfies Same<First<Workspace['browser']['screenshot']>, BrowserScreenshot>,
  content: true satisfies Same<First<Workspace['browser']['content']>, BrowserContent>,
  output: true satisfies Holds<OutputEvent, StreamEvent>,
  terminal: true satisfies Holds<TerminalEvent, TerminalMessage>,
  watch: true satisfies Holds<watch.WatchEvent, WatchMessage>,
}

test("the SDK's own types of requests and events equal the contract's", () => {
  // The type check compares the types. This assertion only proves that there are lines.
  assert.ok(Object.values(CHECKED).length > 10)
})
