import { defineConfig } from 'eslint/config'
import tseslint from 'typescript-eslint'

export default defineConfig(
  {
    ignores: [
      'node_modules/',
      'machine/',
      'templates/',
      'docs/',
      // Of other projects' types, which are there in the long run alone.
      'examples/',
      'sdk/typescript/src/schemas.ts',
      'sdk/*/dist/',
      'cli/dist/',
      '**/*.d.mts',
    ],
  },
  { linterOptions: { reportUnusedDisableDirectives: 'error' } },
  {
    files: ['**/*.ts'],
    extends: [tseslint.configs.strictTypeChecked],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      // Numbers and booleans read well in a message.
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true, allowBoolean: true }],
      // `return output.line(text)` ends a function that returns nothing, in one line.
      '@typescript-eslint/no-confusing-void-expression': 'off',
      '@typescript-eslint/no-meaningless-void-operator': 'off',
      // `Promise<void> | void` is what a callback may return.
      '@typescript-eslint/no-invalid-void-type': 'off',
      // Records of functions are everywhere here, and none of them uses `this`.
      '@typescript-eslint/unbound-method': 'off',
      '@typescript-eslint/no-unnecessary-type-arguments': 'off',
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_', ignoreRestSiblings: true }],
      // Handlers keep one shape, whether or not they have something to wait for.
      '@typescript-eslint/require-await': 'off',
      '@typescript-eslint/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
      eqeqeq: 'error',
    },
  },
  { files: ['service/**/*.ts'], rules: { 'no-console': 'error' } },
  {
    // node:test collects what its functions return by itself.
    files: ['**/*.test.ts', 'tests/**/*.ts'],
    rules: {
      // Bodies of answers: that they have the shape a test reads is what the test is about.
      '@typescript-eslint/no-unsafe-assignment': 'off',
      '@typescript-eslint/no-unsafe-member-access': 'off',
      '@typescript-eslint/no-unsafe-call': 'off',
      '@typescript-eslint/no-unsafe-return': 'off',
      '@typescript-eslint/no-unsafe-argument': 'off',
      '@typescript-eslint/no-floating-promises': [
        'error',
        {
          allowForKnownSafeCalls: [
            { from: 'package', name: ['test', 'describe', 'it', 'before', 'after', 'beforeEach', 'afterEach'], package: 'node:test' },
          ],
        },
      ],
    },
  },
  {
    files: ['**/*.mjs', '**/*.js'],
    languageOptions: {
      globals: Object.fromEntries(
        [
          'process',
          'URL',
          'Buffer',
          'performance',
          'setTimeout',
          'setInterval',
          'clearInterval',
          'clearTimeout',
          'AbortController',
          'fetch',
          'console',
          'structuredClone',
        ].map((name) => [name, 'readonly']),
      ),
    },
    rules: { 'no-undef': 'error', 'no-unused-vars': 'error', eqeqeq: 'error', 'no-constant-condition': 'error', 'no-unreachable': 'error' },
  },
  {
    // Scripts of pages.
    files: ['service/api/site/*.js'],
    languageOptions: {
      globals: Object.fromEntries(['document', 'location', 'history', 'FormData', 'URLSearchParams'].map((name) => [name, 'readonly'])),
    },
  },
)
