# The first process of an enclosure: sh init.sh TMP [SHOWN…] -- COMMAND…
# It gives the command a /tmp of its own, in which the folders SHOWN are seen, and reaps whatever becomes its child.
tmp=$1
shift
set -e
mkdir -p /run/netns
mount -t tmpfs -o mode=755 tmpfs /run/netns
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
while [ "$1" != -- ]; do
  mkdir -p "$tmp${1#/tmp}"
  mount --rbind "$1" "$tmp${1#/tmp}"
  shift
done
shift
mount --rbind "$tmp" /tmp
cd "$PWD"
set +e
command=
# The shell lets what runs beside it ignore SIGINT: every signal is passed on as the one to end.
trap '[ -z "$command" ] || kill -TERM "$command"' INT TERM HUP
"$@" <&0 &
command=$!
while :; do
  wait "$command"
  code=$?
  kill -0 "$command" 2>/dev/null || exit $code
done
