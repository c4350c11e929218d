#!/bin/sh
# oci-image.sh ARCH FOLDER TAR: makes an image of what stage.sh has put into FOLDER for
# ARCH, as a tar in OCI image layout: the programs, and the C library of this machine that
# they are linked with. Nothing else is in it, no shell either.
#
# Reference: https://github.com/opencontainers/image-spec/blob/main/image-layout.md
set -eu
[ $# = 3 ] || { echo "usage: oci-image.sh ARCH FOLDER TAR" >&2; exit 2; }
arch=$1 from=$2 to=$3
case $arch in
amd64) triple=x86_64-linux-gnu loader=lib64/ld-linux-x86-64.so.2 ;;
arm64) triple=aarch64-linux-gnu loader=lib/ld-linux-aarch64.so.1 ;;
*) echo "error: architecture $arch: want amd64 or arm64" >&2; exit 2 ;;
esac
cc=$triple-gcc
command -v "$cc" >/dev/null || cc=${CC:-cc}
umask 022
version=${VERSION:-$("$(dirname "$0")/version.sh")}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root blobs=$work/image/blobs/sha256
mkdir -p "$root/usr" "$root/tmp" "$root/lib/$triple" "$root/$(dirname "$loader")" "$blobs"
chmod 1777 "$root/tmp"
cp -a "$from/bin" "$from/lib" "$root/usr/"
mkdir -p "$root/usr/share/doc/gpurig"
cp "$from/share/doc/gpurig/LICENSE" "$from"/share/doc/gpurig/*.txt "$from"/share/doc/gpurig/*.json "$root/usr/share/doc/gpurig/"
for f in libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0; do
	cp -L "$("$cc" -print-file-name=$f)" "$root/lib/$triple/$f"
done
cp -L "$("$cc" -print-file-name="$(basename "$loader")")" "$root/$loader"
for f in /usr/share/doc/libc6/copyright /usr/share/doc/libc6-"$arch"-cross/copyright; do
	[ ! -f "$f" ] || cp "$f" "$root/usr/share/doc/gpurig/libc6-copyright.txt"
done

pack() { tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C "$1" -c .; }
digest() { sha256sum "$1" | cut -d' ' -f1; }
# blob FILE: has it named by its digest, which is printed with its size, as a descriptor does.
blob() {
	d=$(digest "$1")
	printf '"digest":"sha256:%s","size":%s' "$d" "$(stat -c %s "$1")"
	mv "$1" "$blobs/$d"
}
pack "$root" >"$work/layer"
content=$(digest "$work/layer")
gzip -9n "$work/layer"
layer=$(blob "$work/layer.gz")
created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
cat >"$work/config" <<EOF
{"created":"$created","architecture":"$arch","os":"linux","config":{"Env":["PATH=/usr/bin","HOME=/tmp"],"Entrypoint":["/usr/bin/gpurig"],"Cmd":["run"],"Labels":{"org.opencontainers.image.title":"gpurig","org.opencontainers.image.version":"$version","org.opencontainers.image.licenses":"Apache-2.0"}},"rootfs":{"type":"layers","diff_ids":["sha256:$content"]},"history":[{"created":"$created"}]}
EOF
config=$(blob "$work/config")
cat >"$work/manifest" <<EOF
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json",$config},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip",$layer}]}
EOF
manifest=$(blob "$work/manifest")
cat >"$work/image/index.json" <<EOF
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json",$manifest,"platform":{"architecture":"$arch","os":"linux"},"annotations":{"org.opencontainers.image.ref.name":"gpurig:$version"}}]}
EOF
echo '{"imageLayoutVersion":"1.0.0"}' >"$work/image/oci-layout"
pack "$work/image" >"$to"
