import { type CliCommand } from './command.ts'

/** Its module is read only where it runs: the protocol's library is larger than all else here. */
export const MCP: CliCommand = {
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
  async run(context) {
    const { serveMcp } = await import('./mcp.ts')
    return serveMcp(context)
  },
}
