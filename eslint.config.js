import { defineConfig } from 'eslint/config'
import tseslint from 'typescript-eslint'

// A part of the long run: the one rule of strictTypeChecked that the linter of `npm test` (.oxlintrc.json) does not know.
export default defineConfig(
  {
    ignores: [
      'node_modules/',
      'machine/',
      'templates/',
      'docs/',
      'examples/',
      'sdk/*/dist/',
      'cli/dist/',
      '**/*.js',
      '**/*.mjs',
      '**/*.d.mts',
    ],
  },
  {
    // Its comments are for the other linter.
    linterOptions: { noInlineConfig: true, reportUnusedDisableDirectives: 'off' },
    files: ['**/*.ts'],
    languageOptions: { parser: tseslint.parser, parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    plugins: { '@typescript-eslint': tseslint.plugin },
    rules: { '@typescript-eslint/no-unsafe-class-instance-assignment': 'error' },
  },
)
