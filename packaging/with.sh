#!/bin/sh
# Runs a command where packages of another suite of Debian lie over this machine's
# /usr: in a mount namespace of its own. Nothing is installed.
#
#	with.sh FOLDER SUITE "PACKAGE..." COMMAND [ARGUMENT...]
#
# FOLDER is where unpack.sh unpacks them; with another list of packages, another one.
set -eu

folder=$1 suite=$2 packages=$3
shift 3
# shellcheck disable=SC2086
"$(dirname "$0")/unpack.sh" "$folder" "$suite" $packages
exec unshare --mount sh -c '
	mount -t overlay -o "lowerdir=$0/usr:/usr" gpurig /usr || exit
	exec "$@"' "/var/cache/gpurig/$folder" "$@"
