#!/bin/sh
# After base's own: commands of the npm packages, which come as packages and not by an installer.
set -eu
root=$1
for command in pnpm pnpx; do ln -s "../lib/node_modules/pnpm/bin/$command.cjs" "$root/usr/local/bin/$command"; done
for command in yarn yarnpkg; do ln -s "../lib/node_modules/yarn/bin/$command" "$root/usr/local/bin/$command"; done
chmod 755 "$root"/usr/local/lib/node_modules/pnpm/bin/*.cjs "$root/usr/local/lib/node_modules/yarn/bin/yarn" "$root/usr/local/lib/node_modules/yarn/bin/yarnpkg"
