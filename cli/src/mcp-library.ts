// The bundle stores this module compressed: it is nine tenths of the file.
export { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
export { StdioServerTransport } from '@modelcontextprotocol/server/stdio'
export { z } from 'zod'
