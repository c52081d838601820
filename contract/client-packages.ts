export const RELEASE_NOTES_URL = 'https://github.com/berth-dev/berth/releases'

/** See App, "Client versions". A test compares the packages' manifests. */
export const CLIENT_PACKAGES = [
  {
    package: '@berth/sdk',
    ecosystem: 'npm',
    version: '0.1.0',
    is_distributed: false,
    minimum_supported: '0.1.0',
    upgrade_command: 'npm install @berth/sdk@latest',
  },
  {
    package: '@berth/cli',
    ecosystem: 'npm',
    version: '0.1.0',
    is_distributed: false,
    minimum_supported: '0.1.0',
    upgrade_command: 'npm install --global @berth/cli@latest',
  },
  {
    package: 'berth-sdk',
    ecosystem: 'pypi',
    version: '0.1.0',
    is_distributed: false,
    minimum_supported: '0.1.0',
    upgrade_command: 'pip install --upgrade berth-sdk',
  },
] as const
