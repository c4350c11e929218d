#!/bin/sh
# dist.sh FOLDER ARCH...: makes what a release has, for amd64 and arm64: an archive to
# unpack anywhere, a Debian package, a snap, an OCI image, and the digests of all.
set -eu
[ $# -ge 2 ] || { echo "usage: dist.sh FOLDER ARCH..." >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
top=$(cd "$(dirname "$0")" && pwd)
VERSION=${VERSION:-$("$top/version.sh")}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$top" log -1 --format=%ct)}
export VERSION SOURCE_DATE_EPOCH
command -v mksquashfs >/dev/null || { echo "error: no mksquashfs, which makes the snap: apt-get install squashfs-tools" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for arch; do
	name=gpurig-$VERSION-linux-$arch
	"$top/stage.sh" "$arch" "$work/$name"
	tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C "$work" -c "$name" | gzip -9n >"$out/$name.tar.gz"
	"$top/deb.sh" "$arch" "$work/$name" "$out/gpurig_${VERSION}_$arch.deb"
	"$top/snap.sh" "$arch" "$work/$name" "$out/gpurig_${VERSION}_$arch.snap"
	"$top/oci-image.sh" "$arch" "$work/$name" "$out/$name.oci.tar"
done
cd "$out"
sha256sum -- *.tar.gz *.oci.tar *.deb *.snap >SHA256SUMS
