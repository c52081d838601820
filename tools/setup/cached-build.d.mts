export function cachedBuild(wanted: {
  parent: string
  key: string
  build: (tools: {
    work: string
    output: string
    run: (command: string, args: readonly string[], options?: { timeout_seconds?: number; cwd?: string }) => Promise<string>
  }) => Promise<unknown>
}): Promise<string>
