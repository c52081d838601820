import { policyIssues } from '../../../../contract/egress/check.ts'
import { recipeIssues, type RecipeIssue } from '../../../core/templates/recipes/check.ts'
import { translateDockerfile } from '../../../core/templates/recipes/dockerfile.ts'
import { BUILD_ARCHITECTURE, Recipe, type TemplateBuildRequest } from '../../../../contract/schemas/recipes.ts'
import { validatorOf } from '../../../http/checks.ts'
import { fail, type Failure } from '../../../lib/fail.ts'

const isRecipe = validatorOf(Recipe)
const ISSUES_MAX = 20

export interface AskedRecipe {
  recipe: Recipe
  warnings: string[]
}

/** @throws one failure with all issues */
export function askedRecipe(body: TemplateBuildRequest): AskedRecipe {
  const { recipe, dockerfile, build_args, egress_ceiling, upload_id } = body
  const issues = egress_ceiling === undefined ? [] : policyIssues(egress_ceiling)
  if (issues.length > 0) {
    const of = issues.slice(0, ISSUES_MAX).map((issue) => ({ ...issue, path: `egress_ceiling.${issue.path}` }))
    throw fail('validation_failed', null, 'The request is not valid', { details: { issues: of } })
  }
  if ((recipe === undefined) === (dockerfile === undefined)) throw refused([unread('', 'must have either recipe or dockerfile')])
  if (dockerfile !== undefined) {
    const asked = translated(dockerfile, build_args)
    refuseUnlessValid(asked.recipe, upload_id, () => 'dockerfile')
    return asked
  }
  if (build_args !== undefined) throw refused([unread('build_args', 'go with a dockerfile alone')])
  const asked = recipe ?? {}
  refuseUnlessValid(asked, upload_id, (path) => (path === '' ? 'recipe' : `recipe.${path}`))
  return { recipe: asked, warnings: [] }
}

function translated(text: string, build_args: TemplateBuildRequest['build_args']): AskedRecipe {
  const found = translateDockerfile(text, build_args)
  if ('problems' in found) throw refused(found.problems.map(({ line, message }) => unread('dockerfile', `line ${line}: ${message}`)))
  const { recipe, warnings } = found
  if (isRecipe(recipe)) return { recipe, warnings: warnings.map(({ line, message }) => `line ${line}: ${message}`) }
  throw refused(isRecipe.errors.map(({ instancePath, message = '' }) => unread('dockerfile', `${instancePath} ${message}`)))
}

/** @param pathOf maps a recipe path to its path in the request. */
function refuseUnlessValid(recipe: Recipe, upload_id: string | undefined, pathOf: (path: string) => string): void {
  const issues = recipeIssues(recipe, upload_id !== undefined)
  if (issues.length > 0) throw refused(issues.map((issue) => ({ ...issue, path: pathOf(issue.path) })))
  const { architecture = BUILD_ARCHITECTURE } = recipe
  if (architecture === BUILD_ARCHITECTURE) return
  throw fail('validation_failed', 'architecture_not_supported', `Builds are made on ${BUILD_ARCHITECTURE} alone`, {
    details: { field: pathOf('architecture') },
  })
}

function unread(path: string, message: string): RecipeIssue {
  return { path, reason: 'invalid_recipe', message }
}

function refused(issues: RecipeIssue[]): Failure {
  const [first] = issues
  return fail('validation_failed', first?.reason ?? 'invalid_recipe', 'The recipe is not valid', {
    details: { issues: issues.slice(0, ISSUES_MAX) },
  })
}
