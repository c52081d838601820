import type { Workspace } from '../../sdk/typescript/src/main.ts'
import type { CliCommand, Context } from './command.ts'
import { EXEC_FLAGS } from './exec-flags.ts'

const DRAFT_COLUMNS = ['template_slug', 'base.slug', 'base.version', 'stale', 'workspace_id']
const STATE_COLUMNS = ['id', 'label', 'created_at', 'size_bytes']
const INSTANCE_COLUMNS = ['key', 'observed_state', 'id']

const draft = (
  name: string,
  takes: string,
  does: string,
  words: readonly [number, number],
  run: CliCommand['run'],
  flags: CliCommand['flags'] = {},
): CliCommand => ({ name: `templates draft ${name}`, takes, does, words, run, flags })

export const DRAFTS: CliCommand[] = [
  draft(
    'open',
    'SLUG',
    'open the draft of a template, a workspace for its next version; --base says the version of a template that is not there yet',
    [1, 1],
    async (context, [slug = '']) => {
      const { base, name } = context.flags
      const request = { ...(typeof base === 'string' ? { base } : {}), ...(typeof name === 'string' ? { display_name: name } : {}) }
      const { view } = await context.berth().templates.drafts.open(slug, request)
      context.print(view, ['key', 'observed_state', 'template.slug', 'template.version', 'id'])
      return 0
    },
    {
      base: {
        type: 'string',
        value: 'SLUG@VERSION',
        says: 'SLUG@VERSION that the draft begins with; where it is not said, the newest version of the template',
      },
      name: { type: 'string', value: 'NAME', says: 'name that is shown of the template' },
    },
  ),
  draft('show', 'SLUG', 'show the draft, and the id of its workspace', [1, 1], async ({ berth, print }, [slug = '']) => {
    print(await berth().templates.drafts.get(slug), DRAFT_COLUMNS)
    return 0
  }),
  {
    ...draft(
      'exec',
      'SLUG [--] COMMAND …',
      'run a command in the draft, as exec does',
      [1, 1],
      async (context, [slug = '']) => {
        const { exec } = await import('./exec.ts')
        return exec({ ...context, workspace: () => workspaceOf(context, slug) }, [slug])
      },
      EXEC_FLAGS,
    ),
    runs: true,
  },
  draft('capture', 'SLUG [LABEL]', 'keep what it holds now as a state', [1, 2], async ({ berth, print }, [slug = '', label]) => {
    print(await berth().templates.drafts.capture(slug, label === undefined ? {} : { label }), STATE_COLUMNS)
    return 0
  }),
  draft('states', 'SLUG', 'list its states, the newest first', [1, 1], async ({ berth, print }, [slug = '']) => {
    print(await berth().templates.drafts.states(slug).all(), STATE_COLUMNS)
    return 0
  }),
  draft(
    'test',
    'SLUG [STATE_ID] [-- COMMAND …]',
    'open a state, or else the newest, in a session workspace; with a command: run it there, and end the workspace',
    [1, 2],
    async (context, [slug = '', state_id]) => {
      const { tried } = await import('./templates.ts')
      return tried(context, await context.berth().templates.drafts.test(slug, stateOf(state_id)))
    },
  ),
  draft('instances', 'SLUG', 'list the workspaces that test opened', [1, 1], async ({ berth, print }, [slug = '']) => {
    print(await berth().templates.drafts.testInstances(slug).all(), INSTANCE_COLUMNS)
    return 0
  }),
  draft(
    'publish',
    'SLUG [STATE_ID]',
    'make a version of a state, or else of what it holds now, and show what the build says; --publish lets workspaces be opened with it',
    [1, 2],
    async (context, [slug = '', state_id]) => {
      const { followBuild } = await import('./templates.ts')
      const { description, publish, acknowledge } = context.flags
      const request = {
        ...stateOf(state_id),
        ...(typeof description === 'string' ? { description } : {}),
        ...(publish === true ? { auto_publish: true } : {}),
        ...(acknowledge === undefined ? {} : { acknowledged_scan_findings: acknowledge as unknown as string[] }),
      }
      const again = (paths: readonly string[]) =>
        `berth templates draft publish ${slug} --publish${paths.map((at) => ` --acknowledge ${JSON.stringify(at)}`).join('')}`
      const { id } = await context.berth().templates.drafts.publish(slug, request)
      return followBuild(context, id, { is_to_publish: publish === true, again })
    },
    {
      description: { type: 'string', value: 'TEXT', says: 'text that is shown with the version' },
      publish: { type: 'boolean', says: 'let workspaces be opened with the version' },
      acknowledge: {
        type: 'string',
        multiple: true,
        value: 'PATH',
        says: 'path of a file whose finding is acknowledged; may be given several times',
      },
    },
  ),
  draft('discard', 'SLUG', 'delete it with its states; versions stay', [1, 1], async ({ berth, print }, [slug = '']) => {
    print(await berth().templates.drafts.discard(slug))
    return 0
  }),
]

function stateOf(state_id: string | undefined): { state_id?: string } {
  return state_id === undefined ? {} : { state_id }
}

async function workspaceOf({ berth }: Context, slug: string): Promise<Workspace> {
  const { workspace_id } = await berth().templates.drafts.get(slug)
  return berth().workspace(workspace_id)
}
