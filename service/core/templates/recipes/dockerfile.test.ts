import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Value } from 'typebox/value'
import { LIMITS } from '../../../../contract/limits.ts'
import { Recipe } from '../../../../contract/schemas/recipes.ts'
import { recipeIssues } from './check.ts'
import { translateDockerfile } from './dockerfile.ts'

const lines = (...all: string[]) => all.join('\n')

function recipe(text: string, build_args?: Record<string, string>) {
  const translated = translateDockerfile(text, build_args)
  assert.ok('recipe' in translated, JSON.stringify(translated))
  return translated.recipe
}

function problems(text: string, build_args?: Record<string, string>) {
  const translated = translateDockerfile(text, build_args)
  assert.ok('problems' in translated, JSON.stringify(translated))
  return translated.problems
}

test('every instruction of a usual Dockerfile becomes part of a recipe', () => {
  const text = lines(
    '# syntax=docker/dockerfile:1',
    'ARG BASE=base',
    'FROM ${BASE}:3',
    'ARG WHO=world',
    'ENV GREETING="hello $WHO" OTHER=\\$5',
    'LABEL a=b',
    'WORKDIR /srv',
    'WORKDIR app',
    'COPY --chown=user:user --chmod=0755 package.json package-lock.json ./',
    'RUN npm ci \\',
    '    # a comment between',
    '',
    '    && echo done',
    'USER user',
    'RUN ["node", "--version"]',
    'EXPOSE 8080/tcp',
    'ENTRYPOINT ["node"]',
    'CMD ["server.js"]',
  )
  const env = { GREETING: 'hello world', OTHER: '$5' }
  const seen = { WHO: 'world', ...env }
  assert.deepEqual(recipe(text), {
    base: 'base@3',
    steps: [
      { copy: ['package.json', 'package-lock.json'], to: '/srv/app/', user: 'user', mode: '0755' },
      { run: ['/bin/sh', '-c', 'npm ci     && echo done'], user: 'root', cwd: '/srv/app', env: seen },
      { run: ['node', '--version'], user: 'user', cwd: '/srv/app', env: seen },
    ],
    env,
    services: [{ name: 'main', argv: ['node', 'server.js'], cwd: '/srv/app', user: 'user', restart: 'on_failure', ready: { port: 8080 } }],
  })
})

test('a heredoc of RUN becomes its script, and one of COPY a file', () => {
  const { steps = [] } = recipe(
    lines(
      'FROM base',
      'ENV A=1',
      'RUN <<EOF',
      'echo one',
      '# no comment',
      'echo two',
      'EOF',
      "COPY <<'X' <<Y /etc/it/",
      'a $A',
      'X',
      'b $A "c"',
      'Y',
    ),
  )
  const [run, copy] = steps as { run: string | string[] }[]
  assert.deepEqual(run?.run, ['/bin/sh', '-c', 'echo one\n# no comment\necho two\n'])
  const written = [...String(copy?.run).matchAll(/printf %s (\S+) \| base64 -d > '([^']+)'/g)].map(([, base64 = '', path]) => [
    path,
    Buffer.from(base64, 'base64').toString(),
  ])
  assert.deepEqual(written, [
    ['/etc/it/X', 'a $A\n'],
    ['/etc/it/Y', 'b 1 "c"\n'],
  ])
})

test('a heredoc that a command reads stays in its script', () => {
  const { steps = [] } = recipe(lines('FROM base', 'RUN cat <<EOF > /x', 'hello', 'EOF', 'RUN true'))
  assert.deepEqual(
    steps.map((step) => 'run' in step && step.run),
    [
      ['/bin/sh', '-c', 'cat <<EOF > /x\nhello\nEOF\n'],
      ['/bin/sh', '-c', 'true'],
    ],
  )
})

test("build arguments replace the values of ARG, and do not enter the template's environment", () => {
  const built = recipe(lines('FROM base', 'ARG V=1', 'RUN echo $V'), { V: '2' })
  assert.deepEqual(built.env, {})
  assert.deepEqual(built.steps, [{ run: ['/bin/sh', '-c', 'echo $V'], user: 'root', cwd: '/', env: { V: '2' } }])
})

test('an unknown instruction is reported with its line', () => {
  const text = lines(
    'FROM base',
    'RUN true',
    'CROSSBUILD x',
    'ADD https://example.com/x /x',
    'COPY --from=other /a /b',
    'RUN --mount=type=cache true',
    'EXPOSE 53/udp',
    'FROM other',
    'NONSENSE',
  )
  assert.deepEqual(
    problems(text).map(({ line }) => line),
    [3, 4, 5, 6, 7, 8, 9],
  )
  for (const [given, expected] of [
    ['', /no FROM/],
    ['RUN true', /FROM must come first/],
    ['FROM docker.io/library/node:20', /not fetched/],
    ['FROM upload:latest', /FROM upload:ID/],
    ['FROM base\nRUN <<EOF\nx', /has no end/],
    ['FROM base\nENV A', /NAME=value/],
    ['FROM base\nENV A="x', /no end/],
    ['FROM base\nWORKDIR ${A#b}', /not understood/],
    ['FROM base\nUSER a:b', /group/],
  ] as const) {
    assert.match(
      problems(given)
        .map(({ message }) => message)
        .join(),
      expected,
      given,
    )
  }
  assert.match(problems('FROM base', { NO: '1' })[0]?.message ?? '', /NO/)
})

test('an instruction without effect on a workspace is ignored with a warning, and refused before FROM', () => {
  const translated = translateDockerfile(
    lines('FROM base', 'MAINTAINER a', 'HEALTHCHECK CMD true', 'RUN true', 'VOLUME /data', 'STOPSIGNAL 9', 'ONBUILD RUN x'),
  )
  assert.ok('recipe' in translated)
  assert.equal(translated.recipe.steps?.length, 1)
  assert.deepEqual(
    translated.warnings.map(({ line, message }) => [line, message.split(' is ignored: ')[0]]),
    [[3, 'HEALTHCHECK'], [5, 'VOLUME'], [6, 'STOPSIGNAL'], [7, 'ONBUILD']], // prettier-ignore
  )
  assert.deepEqual(problems('VOLUME /data\nFROM base'), [{ line: 1, message: 'FROM must come first' }])
})

test('the escape directive changes how lines are joined', () => {
  assert.deepEqual(recipe(lines('# escape=`', 'FROM base', 'RUN a `', '  b')).steps, [
    { run: ['/bin/sh', '-c', 'a   b'], user: 'root', cwd: '/', env: {} },
  ])
})

test('any input gives a valid recipe, or problems with existing line numbers', () => {
  const pieces = ['FROM base', 'RUN ', 'COPY ', 'ENV ', 'ARG ', '<<EOF', 'EOF', '\\\n', '\n', '$', '{', '}', '${A:-b}', '"', "'", '[', '"]', ' a=b', ' /x', '--chown=', '#', ':', 'WORKDIR ', '..', 'é', '\u0000', 'CMD ', 'EXPOSE 1'] // prettier-ignore
  let seed = 20_261_125
  const next = (below: number) => {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31
    return Math.floor((seed / 2 ** 31) * below)
  }
  for (let round = 0; round < 5000; round++) {
    const text = `${next(2) === 0 ? 'FROM base\n' : ''}${Array.from({ length: next(14) }, () => pieces[next(pieces.length)]).join('')}`
    const translated = translateDockerfile(text)
    if ('problems' in translated) {
      const last = text.split('\n').length
      assert.ok(
        translated.problems.every(({ line }) => line >= 1 && line <= last),
        `round ${round}: ${JSON.stringify(text)}`,
      )
    } else {
      recipeIssues(translated.recipe, true)
      if (!text.includes('\u0000'))
        assert.ok(Value.Check(Recipe, translated.recipe), `round ${round}: ${JSON.stringify([text, translated.recipe])}`)
    }
  }
})

test('a Dockerfile that expands to a huge size, or has too many lines, is refused', () => {
  const { recipe_bytes_max, steps_max, dockerfile_instructions_max, dockerfile_variables_max } = LIMITS.build
  const first = (text: string) => problems(lines('FROM base', text))[0]
  const too_long = `with its variables it has more than ${recipe_bytes_max} characters`
  const doubled = ['ENV A=0123456789', ...Array<string>(40).fill('ENV A=$A$A')].join('\n')
  assert.deepEqual(first(doubled), { line: 18, message: too_long })
  const long = `ENV A=${'a'.repeat(1000)}`
  assert.deepEqual(first(lines(long, `COPY${' $A/'.repeat(10_000)} /x`)), { line: 3, message: too_long })
  assert.deepEqual(first(lines(long, 'COPY <<E /x', '$A"'.repeat(10_000), 'E')), { line: 3, message: too_long })
  const variables = Array.from({ length: dockerfile_variables_max + 1 }, (_, i) => ` v${i}=1`).join('')
  const many = `it has more than ${dockerfile_variables_max} variables`
  assert.deepEqual(
    [first(`ENV${variables}`), first(`ARG${variables}`)],
    [
      { line: 2, message: many },
      { line: 2, message: many },
    ],
  )
  const environments = lines(
    `ENV${Array.from({ length: 500 }, (_, i) => ` v${i}=${'x'.repeat(100)}`).join('')}`,
    ...Array<string>(20).fill('RUN x'),
  )
  assert.match(first(environments)?.message ?? '', /^the environments of its steps have more than/)
  assert.equal(
    first(
      Array<string>(steps_max + 1)
        .fill('RUN x')
        .join('\n'),
    )?.message,
    `it has more than ${steps_max} steps`,
  )
  const instructions = problems(lines('FROM base', ...Array<string>(10_000).fill('WORKDIR a')))
  assert.deepEqual(instructions, [
    { line: dockerfile_instructions_max + 1, message: `it has more than ${dockerfile_instructions_max} instructions` },
  ])
  const open = problems(lines('FROM base', ...Array<string>(1000).fill('RUN <<A')))
  assert.deepEqual(open, [{ line: 2, message: 'the heredoc that begins with << in RUN has no end' }])
})
