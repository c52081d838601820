/** What a workspace gives to everything that is started in it. */
export interface WorkspaceEnvironment {
  /** settings.env of its template version. */
  readonly template_env: Readonly<Record<string, string>>
  /** Its text inputs. */
  readonly inputs: Readonly<Record<string, string>>
}

/**
 * The environment of what a call starts, lowest first (Cell, "Exec session"): the template's, the workspace's inputs, what the call
 * itself asks for. The guest's own environment lies below all of them. Pure.
 */
export function environmentOf(
  { template_env, inputs }: WorkspaceEnvironment,
  asked: Readonly<Record<string, string>> = {},
): Record<string, string> {
  return { ...template_env, ...inputs, ...asked }
}
