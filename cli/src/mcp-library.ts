// All that the command line uses of the MCP library. The bundle stores it as compressed text: it is nine tenths of the file.
export { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
export { StdioServerTransport } from '@modelcontextprotocol/server/stdio'
export { z } from 'zod'
