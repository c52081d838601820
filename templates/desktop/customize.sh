#!/bin/sh
# After base's own: noVNC opens by itself at the root of its port.
set -eu
root=$1
mkdir -p "$root/opt/desktop/web"
for each in app core vendor vnc.html vnc_lite.html; do ln -s "/usr/share/novnc/$each" "$root/opt/desktop/web/$each"; done
cat > "$root/opt/desktop/web/index.html" <<'HTML'
<!doctype html><title>Desktop</title><meta http-equiv="refresh" content="0; url=vnc.html?autoconnect=true&resize=scale">
HTML
chmod 755 "$root"/opt/desktop/screen "$root"/opt/desktop/vnc
