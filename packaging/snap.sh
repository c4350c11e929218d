#!/bin/sh
# snap.sh ARCH FOLDER SNAP: makes the snap SNAP of what stage.sh has put into FOLDER for
# ARCH. Its confinement is classic: gpurig makes namespaces and mounts. It needs glibc 2.34
# of the machine, as the archive does.
set -eu
[ $# = 3 ] || { echo "usage: snap.sh ARCH FOLDER SNAP" >&2; exit 2; }
arch=$1 from=$2 snap=$3
top=$(dirname "$0")
umask 022
version=${VERSION:-$("$top/version.sh")}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$top" log -1 --format=%ct)}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
cp -a "$from/." "$root/"
mkdir "$root/meta"
cat >"$root/meta/snap.yaml" <<EOF
name: gpurig
version: '$(printf %.32s "$version")'
summary: Tests of GPU passthrough into system containers without GPUs
description: |
  gpurig runs scenarios of GPU passthrough: simulated in milliseconds, in real
  containers (LXC, LXD, Incus, runc, crun, Docker) on a fake host, and on real
  hardware.
license: Apache-2.0
architectures: [$arch]
base: core24
confinement: classic
grade: stable
apps:
  gpurig:
    command: bin/gpurig
  smoke:
    command: bin/gpurig-smoke
EOF
rm -f "$snap"
# SOURCE_DATE_EPOCH is mksquashfs's own, and not taken beside these.
env -u SOURCE_DATE_EPOCH mksquashfs "$root" "$snap" -noappend -comp xz -no-fragments -no-progress -quiet -all-root -no-xattrs \
	-mkfs-time "$SOURCE_DATE_EPOCH" -all-time "$SOURCE_DATE_EPOCH" >/dev/null
