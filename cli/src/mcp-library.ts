// A module of its own, because the bundle stores this library compressed: it is nine tenths of the file.
export { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
export { StdioServerTransport } from '@modelcontextprotocol/server/stdio'
export { z } from 'zod'
