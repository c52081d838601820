// Each guide's samples need a test that runs them, or a reason why no test can.
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'

const ROOT = path.resolve(import.meta.dirname, '../..')

export interface Sample {
  page: string
  language: string
  text: string
}

/** `internet.md` is separate: it needs a test internet. */
export const TASK_PAGES: Readonly<Record<string, readonly ('ts' | 'python' | 'sh')[]>> = {
  start: ['ts', 'python', 'sh'],
  'run-code': ['ts', 'python', 'sh'],
  'long-commands': ['ts', 'python', 'sh'],
  files: ['ts', 'python', 'sh'],
  forks: ['ts', 'python', 'sh'],
  'file-first': ['ts', 'python', 'sh'],
  ports: ['ts', 'python', 'sh'],
  secretless: ['ts', 'python', 'sh'],
  stdin: ['ts', 'python'],
  volumes: ['ts', 'python', 'sh'],
  watch: ['ts', 'python'],
}

/** Tests that run all samples of a page in these languages, except those in `NOT_RUN`. */
export const RUN_BY: readonly { page: string; languages: readonly string[]; test: string }[] = [
  ...Object.entries(TASK_PAGES).map(([page, languages]) => ({ page: `${page}.md`, languages, test: 'acceptance/tasks.test.ts' })),
  { page: 'egress.md', languages: ['ts', 'python', 'sh'], test: 'acceptance/guides.test.ts' },
  { page: 'trees.md', languages: ['sh'], test: 'acceptance/tasks.test.ts' },
  { page: 'typescript.md', languages: ['ts'], test: 'acceptance/clients.test.ts' },
  { page: 'python.md', languages: ['python'], test: 'acceptance/clients.test.ts' },
  { page: 'cli.md', languages: ['sh'], test: 'acceptance/clients.test.ts' },
  { page: 'people.md', languages: ['sh'], test: 'acceptance/people.test.ts' },
  { page: 'usage.md', languages: ['sh'], test: 'acceptance/people.test.ts' },
  { page: 'ssh.md', languages: ['sh'], test: 'acceptance/ssh.test.ts' },
  { page: 'template-builds.md', languages: ['sh'], test: 'acceptance/template-builds.test.ts' },
  { page: 'template-drafts.md', languages: ['ts', 'python', 'sh'], test: 'acceptance/template-drafts.test.ts' },
]

export const NOT_RUN: readonly { page: string; begins: string; because: string }[] = [
  {
    page: 'start.md',
    begins: 'npm start',
    because: 'every run of the tests begins with the same set-up; installs.test.ts goes on from there',
  },
  { page: 'cli.md', begins: 'npm install --global', because: 'npm needs its registry; installs.test.ts runs it in the long run' },
  { page: 'typescript.md', begins: 'npm install', because: 'npm needs its registry; installs.test.ts runs it in the long run' },
  { page: 'python.md', begins: 'pip install', because: 'pip needs its registry; installs.test.ts runs it in the long run' },
  {
    page: 'typescript.md',
    begins: '// On your server',
    because: 'two programs, a server and a page; the platforms test calls the gateway from a page',
  },
  {
    page: 'secretless.md',
    begins: 'curl -H "Authorization: Bearer $API_KEY"',
    because: 'it needs a host outside with a certificate; secretless.test.ts has one',
  },
  {
    page: 'ports.md',
    begins: 'certbot certonly',
    because: 'it needs a domain and Let’s Encrypt; ports-tls.test.ts makes its own authority',
  },
  { page: 'mcp.md', begins: '{\n  "mcpServers"', because: 'a file of another program; mcp.test.ts starts the server with these flags' },
  { page: 'mcp.md', begins: 'BERTH_MCP_TOKEN=… berth mcp', because: 'it serves until it is ended; mcp.test.ts serves over HTTP' },
  {
    page: 'platform-templates.md',
    begins: 'npm run templates',
    because: 'it needs the mirrors of Debian and npm; platform-templates.test.ts builds what is in the cache',
  },
  {
    page: 'platform-templates.md',
    begins: 'curl -sS -H "Authorization: Bearer $ACCESS"',
    because: 'it needs the template; platform-templates.test.ts runs it with its kernel',
  },
  {
    page: 'platform-templates.md',
    begins: 'xdotool search',
    because: 'it needs the template; platform-templates.test.ts looks at its screen',
  },
  { page: 'templates.md', begins: '{\n  "env"', because: 'settings, not a command; the programs that it names are the reader’s' },
  {
    page: 'templates.md',
    begins: 'curl -sS -X POST "$BERTH_URL/v1/workspaces/$WORKSPACE_ID/save-as-template"',
    because: 'save-as-template.test.ts sends the same request',
  },
  {
    page: 'templates.md',
    begins: 'npm run admin -- template export',
    because: 'template-handover.test.ts runs both commands between two installations',
  },
  {
    page: 'people.md',
    begins: 'npm run admin -- person create',
    because: 'the commands of an operator: acceptance/people.test.ts runs them by the service’s own admin',
  },
  {
    page: 'usage.md',
    begins: 'npm run admin -- invoice list',
    because: 'an invoice comes after the end of a month; the tests of billing set the clock',
  },
  {
    page: 'usage.md',
    begins: 'curl -sS -X POST -H "Authorization: Bearer $SESSION" "$BERTH/v1/organizations/$ORGANIZATION/checkout"',
    because: 'it costs money at a payment service; payment.test.ts has a double of one',
  },
]

/** Not run, because tests set the address in the environment. */
export const isSetUp = ({ text }: Sample) => /^export (BERTH|BERTH_URL|URL)=/.test(text)

export function samplesOf(page: string): Sample[] {
  const text = readFileSync(path.join(ROOT, 'docs/guides', page), 'utf8')
  return [...text.matchAll(/^( *)```(\w*)\n(.*?)^\1```$/gms)].map(([, indent = '', language = '', block = '']) => ({
    page,
    language,
    text: block.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
  }))
}

export const notRun = ({ page, text }: Sample) => NOT_RUN.find((one) => one.page === page && text.startsWith(one.begins))

export function guides(): string[] {
  return readdirSync(path.join(ROOT, 'docs/guides')).filter((name) => name.endsWith('.md'))
}
