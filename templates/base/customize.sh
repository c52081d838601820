#!/bin/sh
# Last step of the build: makes a Debian root file system a template. $1 is the root; USER_NAME, USER_UID, USER_GID, USER_HOME and
# USER_SHELL come from recipe.json. Runs on the host and enters the root with chroot where Debian's own tools are needed.
set -eu
root=$1
export SOURCE_DATE_EPOCH

# npm comes as a package, not as an installer, so its commands are linked here.
ln -s ../lib/node_modules/npm/bin/npm-cli.js "$root/usr/local/bin/npm"
ln -s ../lib/node_modules/npm/bin/npx-cli.js "$root/usr/local/bin/npx"
chmod 755 "$root/usr/local/lib/node_modules/npm/bin/npm-cli.js" "$root/usr/local/lib/node_modules/npm/bin/npx-cli.js"
# Headers, manual and notes of Node: node-gyp fetches the headers it needs, so nothing reads these 60 MB.
rm -rf "$root/usr/local/include/node" "$root/usr/local/share/doc/node" "$root/usr/local/share/man/man1" \
  "$root/usr/local/CHANGELOG.md" "$root/usr/local/README.md" "$root/usr/local/package.json" \
  "$root/usr/local/lib/node_modules/npm/man" "$root/usr/local/lib/node_modules/npm/docs"
mkdir -p "$root/usr/share/doc/node"
mv "$root/usr/local/LICENSE" "$root/usr/share/doc/node/copyright"

chroot "$root" groupadd --gid "$USER_GID" "$USER_NAME"
chroot "$root" useradd --uid "$USER_UID" --gid "$USER_GID" --home-dir "$USER_HOME" --create-home --shell "$USER_SHELL" "$USER_NAME"
echo "$USER_NAME ALL=(ALL:ALL) NOPASSWD: ALL" > "$root/etc/sudoers.d/$USER_NAME"
chmod 440 "$root/etc/sudoers.d/$USER_NAME"
chroot "$root" visudo --check --quiet

echo 'LANG=C.UTF-8' > "$root/etc/default/locale"
ln -sf /usr/share/zoneinfo/Etc/UTC "$root/etc/localtime"
echo 'Etc/UTC' > "$root/etc/timezone"

# Debian's pip refuses to install outside a virtual environment, to protect the system's own programs. A workspace is its
# owner's to break, and for `user` pip writes below the home directory anyway.
printf '[global]\nbreak-system-packages = true\ndisable-pip-version-check = true\n' > "$root/etc/pip.conf"

# Ordinary files, so that the machine layer can put a workspace's own above them.
echo 'workspace' > "$root/etc/hostname"
printf '127.0.0.1\tlocalhost\n' > "$root/etc/hosts"
rm -f "$root/etc/resolv.conf"
echo '# Written for each workspace when its machine starts.' > "$root/etc/resolv.conf"
# Empty means "not yet set": two workspaces with one machine-id would be one machine to whatever reads it.
: > "$root/etc/machine-id"

# Where volumes are attached. Root's alone: a write below it without a volume must fail, not land in the disk.
mkdir -m 755 "$root/volumes"
chmod 1777 "$root/tmp" "$root/var/tmp"

# The build's own settings for apt (a proxy, perhaps); and translations of package descriptions, which double `apt-get update`.
rm -f "$root/etc/apt/apt.conf.d/99mmdebstrap"
echo 'Acquire::Languages "none";' > "$root/etc/apt/apt.conf.d/90no-translations"
rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/* "$root"/var/cache/ldconfig/* "$root"/var/cache/debconf/*-old \
  "$root"/var/lib/dpkg/*-old "$root"/etc/*- "$root"/root/.cache "$root"/tmp/* "$root"/var/tmp/* "$root"/run/*
mkdir -p "$root/var/lib/apt/lists/partial" "$root/var/cache/apt/archives/partial"
find "$root/var/log" -type f -delete
# The agent gives every machine its own /dev.
rm -rf "$root"/dev/*
