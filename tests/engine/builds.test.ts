import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createHash, randomUUID } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { DENY_ALL } from '../../contract/egress/policy.ts'
import { translateDockerfile } from '../../service/core/templates/recipes/dockerfile.ts'
import { planSteps } from '../../service/core/templates/recipes/plan.ts'
import type { Recipe } from '../../contract/schemas/recipes.ts'
import { BuildFailed } from '../../service/cell/operations/builds/failed.ts'
import { buildLayers, type BuildRun, type StepCache } from '../../service/cell/operations/builds/layers.ts'
import { openLink } from '../../service/cell/host/agent.ts'
import type { BuildPlan } from '../../service/core/templates/build-plan.ts'
import { openRealHost } from './real-host.ts'

const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
const resources = { cpu_millis: 1000, memory_mib: 256, disk_gib: 1 }
const uploads_dir = mkdtempSync('/tmp/berth-builds-')
let harness: Awaited<ReturnType<typeof openRealHost>>
let fence = 100
const layers_kept = new Map<string, string>()
const cache: StepCache = {
  find: async (key) => layers_kept.get(key),
  keep: async (key, layer) => void layers_kept.set(key, layer),
  forget: async (key) => void layers_kept.delete(key),
}
before(async () => {
  harness = await openRealHost()
})
after(async () => {
  await harness.close()
  rmSync(uploads_dir, { recursive: true })
})

function planOf(recipe: Recipe, upload: BuildPlan['upload'] = null): BuildPlan {
  const settings = { env: {}, inputs: {}, defaults: resources, ceiling: resources }
  return { layers: [...harness.layers], resources, egress: DENY_ALL, steps: planSteps(recipe, { PATH }), upload, settings, ceiling: null }
}

interface Built {
  layers: string[]
  log: string
  ms: number
}

async function build(plan: BuildPlan, signal = new AbortController().signal, onOutput = () => undefined as void): Promise<Built> {
  const log: Buffer[] = []
  fence += 1
  const say = (text: Buffer) => {
    log.push(text)
    if (text.toString().includes('begun\n')) onOutput()
  }
  const run: BuildRun = { build_id: randomUUID(), operation_id: randomUUID(), fence, plan, say, signal }
  const began = performance.now()
  try {
    const layers = await buildLayers({ host: harness.host, cache, uploads_dir, openLink }, run)
    return { layers, log: Buffer.concat(log).toString(), ms: performance.now() - began }
  } finally {
    const { machines } = await harness.host.inventory()
    assert.deepEqual(
      machines.filter(({ subject }) => subject.id === run.build_id),
      [],
    )
  }
}

async function onLayers(layers: string[], paths: string[]): Promise<(string | null)[]> {
  fence += 1
  const subject = { kind: 'workspace', id: randomUUID() } as const
  const speak = (step: string) => ({ subject, operation_id: randomUUID(), step, epoch: 1, fence })
  const machine = await harness.host.start({ ...speak('start'), resources, hostname: 'looks', layers })
  const guest = await harness.guest(machine)
  const found: (string | null)[] = []
  for (const path of paths) found.push(await guest.readFile(path))
  await harness.host.deleteSubject(speak('delete'))
  return found
}

const SLOW = { run: 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo slow > /slow' }

test('each step of a recipe becomes a layer of its changes, and a changed last step alone runs again', async () => {
  const recipe = (last: string): Recipe => ({
    files: [{ path: '/etc/greeting', content: 'hello\n', mode: '600', user: 'user' }],
    steps: [
      SLOW,
      { run: ['sh', '-c', 'pwd > where; id -un >> where; echo $A >> where'], cwd: '/srv/app', user: 'root', env: { A: 'x' } },
      { run: last },
    ],
    env: { A: 'y' },
  })
  const first = await build(planOf(recipe('echo one > /last; rm /usr/bin/less; echo said')))
  assert.equal(first.layers.length, harness.layers.length + 4)
  assert.match(first.log, /step 4 of 4: echo one .*\nsaid\n/)
  const paths = ['/etc/greeting', '/slow', '/srv/app/where', '/last', '/usr/bin/less']
  assert.deepEqual(await onLayers(first.layers, paths), ['hello\n', 'slow\n', '/srv/app\nroot\nx\n', 'one\n', null])
  const second = await build(planOf(recipe('echo two > /last')))
  assert.deepEqual(second.layers.slice(0, -1), first.layers.slice(0, -1))
  assert.equal(second.log.match(/\(as before\)/g)?.length, 3)
  assert.deepEqual(await onLayers(second.layers, ['/last']), ['two\n'])
  const third = await build(planOf(recipe('echo two > /last')))
  assert.deepEqual(third.layers, second.layers)
  console.log(
    `a build of four steps ${first.ms.toFixed(0)} ms, with another last one ${second.ms.toFixed(0)} ms, as before ${third.ms.toFixed(0)} ms`,
  )
})

test('a Dockerfile copies from its upload, and a path outside of it is refused', async () => {
  const context = mkdtempSync('/tmp/berth-context-')
  mkdirSync(join(context, 'src'))
  for (const [name, text] of [
    ['src/a.txt', 'a'],
    ['src/b.txt', 'b'],
    ['one file.md', 'c'],
  ] as const)
    writeFileSync(join(context, name), text)
  execFileSync('ln', ['-s', '/etc', join(context, 'out')])
  const tar = execFileSync('tar', ['-cz', '-C', context, '.'])
  rmSync(context, { recursive: true })
  const PARTS = ['1'.repeat(24), '2'.repeat(24)] as const
  const upload = {
    id: randomUUID(),
    sha256: createHash('sha256').update(tar).digest('hex'),
    parts: [
      { name: PARTS[0], bytes: 100 },
      { name: PARTS[1], bytes: tar.length - 100 },
    ],
  }
  mkdirSync(join(uploads_dir, upload.id))
  writeFileSync(join(uploads_dir, upload.id, PARTS[0]), tar.subarray(0, 100))
  writeFileSync(join(uploads_dir, upload.id, PARTS[1]), tar.subarray(100))
  const recipe = (text: string) => {
    const translated = translateDockerfile(`FROM base\n${text}`)
    assert.ok('recipe' in translated, JSON.stringify(translated))
    return translated.recipe
  }
  const text =
    'WORKDIR /srv\nCOPY src ./all/\nCOPY --chown=user --chmod=0640 src/*.txt "one file.md" /srv/some/\nCOPY src/a.txt /srv/renamed\nRUN stat -c %U:%a some/a.txt > owner'
  const { layers } = await build(planOf(recipe(text), upload))
  const paths = [
    '/srv/all/a.txt',
    '/srv/all/b.txt',
    '/srv/some/b.txt',
    '/srv/some/one file.md',
    '/srv/renamed',
    '/srv/owner',
    '/tmp/.berth-build/upload.tar',
  ]
  assert.deepEqual(await onLayers(layers, paths), ['a', 'b', 'b', 'c', 'a', 'user:640\n', null])
  await assert.rejects(build(planOf(recipe('COPY out/passwd /x'), upload)), BuildFailed)
  await assert.rejects(build(planOf(recipe('COPY nothing /x'), upload)), BuildFailed)
})

test('a step that fails, does not end, fills the disk or forks without end fails its build and leaves no machine', async () => {
  const failing = (steps: Recipe['steps']) => build(planOf({ ...(steps === undefined ? {} : { steps }) }))
  const refused = (step: number, message: RegExp) => (error: unknown) =>
    error instanceof BuildFailed && error.step === step && message.test(error.message)
  await assert.rejects(
    failing([{ run: 'true' }, { run: 'echo no >&2; exit 3' }]),
    refused(2, /ended with 3; its policy lets it reach nothing outside/),
  )
  await assert.rejects(failing([{ run: ['no-such-program'] }]), BuildFailed)
  await assert.rejects(failing([{ run: 'sleep 1000', timeout_seconds: 1 }]), refused(1, /within 1 seconds/))
  await assert.rejects(failing([{ run: 'dd if=/dev/zero of=/fill bs=1M count=3000' }]), BuildFailed)
  await assert.rejects(failing([{ run: 'f() { f | f & }; f; sleep 1000', timeout_seconds: 5 }]), BuildFailed)
})

test('a canceled build ends at once and leaves no machine', async () => {
  const controller = new AbortController()
  const canceled = () => void controller.abort(new Error('canceled'))
  await assert.rejects(build(planOf({ steps: [{ run: 'echo begun; sleep 1000' }] }), controller.signal, canceled), /canceled|abort/)
})

test('a lost layer is made again', async () => {
  const plan = planOf({ steps: [{ run: 'echo one > /one' }, { run: 'cat /one > /two' }] })
  const { layers } = await build(plan)
  const [lost = ''] = layers.slice(-2)
  rmSync(join(harness.layers_dir, `${lost}.erofs`))
  const changed = planOf({ steps: [{ run: 'echo one > /one' }, { run: 'cat /one > /three' }] })
  const again = await build(changed)
  assert.match(again.log, /not there any more/)
  assert.deepEqual(await onLayers(again.layers, ['/one', '/three']), ['one\n', 'one\n'])
})
