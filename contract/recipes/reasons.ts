export const RECIPE_REASONS = [
  'invalid_recipe',
  'invalid_path',
  'platform_owned_path',
  'invalid_package',
  'invalid_host',
  'language_unavailable',
  'language_conflict',
  'too_many_files',
  'too_many_steps',
  'too_many_hosts',
  'recipe_too_large',
  'upload_required',
  'extra_hosts_without_auto',
  'allow_hosts_without_allowlist',
  'allowlist_empty',
  'base_required',
] as const
export type RecipeReason = (typeof RECIPE_REASONS)[number]
