// All of the protocol's library that the command line uses. The bundle keeps it as compressed text: it is nine tenths of the file.
export { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
export { StdioServerTransport } from '@modelcontextprotocol/server/stdio'
export { z } from 'zod'
