import { routesIn, type RoutesById } from '../../route.ts'
import * as audit from './audit.ts'
import * as auth from './auth.ts'
import * as billing from './billing.ts'
import * as checkpoints from './checkpoints.ts'
import * as deletions from './deletions.ts'
import * as egress from './egress.ts'
import * as exports from './exports.ts'
import * as feedback from './feedback.ts'
import * as lifecycle from './lifecycle.ts'
import * as members from './members.ts'
import * as money from './money.ts'
import * as openapi from './openapi.ts'
import * as operations from './operations.ts'
import * as ports from './ports.ts'
import * as principals from './principals.ts'
import * as secrets from './secrets.ts'
import * as template_builds from './template-builds.ts'
import * as template_drafts from './template-drafts.ts'
import * as template_files from './template-files.ts'
import * as template_packages from './template-packages.ts'
import * as template_uploads from './template-uploads.ts'
import * as templates from './templates.ts'
import * as test_instances from './test-instances.ts'
import * as tool_tokens from './tool-tokens.ts'
import * as usage from './usage.ts'
import * as volumes from './volumes.ts'
import * as workspaces from './workspaces.ts'

const MODULES = {
  ...audit,
  ...auth,
  ...billing,
  ...checkpoints,
  ...deletions,
  ...egress,
  ...exports,
  ...feedback,
  ...lifecycle,
  ...members,
  ...money,
  ...openapi,
  ...operations,
  ...ports,
  ...principals,
  ...secrets,
  ...template_builds,
  ...template_drafts,
  ...template_files,
  ...template_packages,
  ...template_uploads,
  ...templates,
  ...test_instances,
  ...tool_tokens,
  ...usage,
  ...volumes,
  ...workspaces,
}

export type AppRoutes = RoutesById<typeof MODULES, 'app'>

export const APP_ROUTES = routesIn(MODULES, 'app')
