#!/bin/sh
# Runs a command where the LXC of another suite of Debian lies over this machine's
# /usr: in a mount namespace of its own. Nothing is installed.
#
#	with-lxc.sh SUITE COMMAND [ARGUMENT...]
set -eu

suite=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
"$here/unpack.sh" "lxc-$suite" "$suite" lxc liblxc1t64 liblxc-common libc6
exec unshare --mount sh -c '
	mount -t overlay -o "lowerdir=$0/usr:/usr" lxc /usr || exit
	echo "with LXC $(lxc-start --version)"
	exec "$@"' "/var/cache/gpurig/lxc-$suite" "$@"
