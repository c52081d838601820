import { z } from './mcp-library.ts'
import { resultOf, type Tool, tool, workspace } from './mcp-tool.ts'

const SNAPSHOTS_MAX = 100

export const LIFECYCLE_TOOLS: Tool[] = [
  tool(
    {
      set: 'lifecycle',
      name: 'open',
      title: 'Open a workspace',
      description: 'Open a workspace: an isolated Linux machine of its own. The first call makes it, later calls find it as it was.',
      input: { workspace },
      output: { workspace: z.string(), state: z.string(), mode: z.string() },
      effect: 'changes',
    },
    async (budget, { workspace: name }) => {
      const { view } = await budget.open(name)
      return resultOf({ workspace: name, state: view.observed_state, mode: view.mode })
    },
  ),
  tool(
    {
      set: 'lifecycle',
      name: 'list_workspaces',
      title: 'List workspaces',
      description: 'The workspaces that these tools reach.',
      input: {},
      output: { workspaces: z.array(z.object({ workspace: z.string(), state: z.string() })) },
      effect: 'reads',
    },
    async (budget) => resultOf({ workspaces: await budget.list() }),
  ),
  tool(
    {
      set: 'lifecycle',
      name: 'fork',
      title: 'Copy a workspace',
      description: 'Copy a workspace, with its files, memory and processes, under another name.',
      input: { workspace, to: z.string().min(1).describe('Name of the copy') },
      output: { workspace: z.string() },
      effect: 'changes',
    },
    async (budget, { workspace: name, to }) => {
      await budget.fork(name, to)
      return resultOf({ workspace: to })
    },
  ),
  tool(
    {
      set: 'lifecycle',
      name: 'adopt',
      title: 'Go on from a copy',
      description:
        'Go on from the memory and files of a copy that was made with fork. What the workspace holds now can be brought back for 7 days: checkpoint_id names it.',
      input: {
        workspace,
        from: z.string().min(1).describe('Name of the copy'),
        delete_copy: z.boolean().optional().describe('true: the copy is deleted afterwards, and its name can be used again'),
      },
      output: { workspace: z.string(), checkpoint_id: z.string() },
      effect: 'destroys',
    },
    async (budget, { workspace: name, from, delete_copy = false }) => {
      const { result } = await budget.adopt(name, from, delete_copy)
      return resultOf({ workspace: name, checkpoint_id: String(result?.['recovery_checkpoint_id']) })
    },
  ),
  tool(
    {
      set: 'lifecycle',
      name: 'snapshot',
      title: 'Keep a workspace as it is',
      description: 'Keep a workspace as it is now, to come back to it with restore.',
      input: { workspace, label: z.string().max(200).optional() },
      output: { checkpoint_id: z.string() },
      effect: 'changes',
    },
    async (budget, { workspace: name, label }) => {
      const { result } = await (await budget.find(name)).snapshot(label === undefined ? {} : { label })
      return resultOf({ checkpoint_id: String(result?.['checkpoint_id']) })
    },
  ),
  tool(
    {
      set: 'lifecycle',
      name: 'list_snapshots',
      title: 'List snapshots',
      description: 'The snapshots of a workspace, the newest first.',
      input: { workspace },
      output: { snapshots: z.array(z.object({ checkpoint_id: z.string(), label: z.string().nullable(), created_at: z.string() })) },
      effect: 'reads',
    },
    async (budget, { workspace: name }) => {
      const snapshots = []
      for await (const { id, label, created_at } of (await budget.find(name)).checkpoints()) {
        snapshots.push({ checkpoint_id: id, label, created_at })
        if (snapshots.length === SNAPSHOTS_MAX) break
      }
      return resultOf({ snapshots })
    },
  ),
  tool(
    {
      set: 'lifecycle',
      name: 'restore',
      title: 'Go back to a snapshot',
      description: 'Bring a snapshot back. What the workspace holds now is lost.',
      input: { workspace, checkpoint_id: z.string() },
      output: { restored: z.string() },
      effect: 'destroys',
    },
    async (budget, { workspace: name, checkpoint_id }) => {
      await (await budget.find(name)).restore(checkpoint_id)
      return resultOf({ restored: checkpoint_id })
    },
  ),
  tool(
    {
      set: 'lifecycle',
      name: 'delete_workspace',
      title: 'Delete a workspace',
      description: 'Delete a workspace with all that it holds. Its name is never used again.',
      input: { workspace },
      output: { deleted: z.string() },
      effect: 'destroys',
    },
    async (budget, { workspace: name }) => {
      await budget.delete(name)
      return resultOf({ deleted: name })
    },
  ),
]
