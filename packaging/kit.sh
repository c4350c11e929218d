#!/bin/sh
# kit.sh ARCH TAR.GZ: makes the archive for a machine with GPUs that has neither network nor
# compiler: gpurig as stage.sh makes it, a static runc, and run, which does it all.
set -eu
[ $# = 2 ] || { echo "usage: kit.sh ARCH TAR.GZ" >&2; exit 2; }
arch=$1
mkdir -p "$(dirname "$2")"
to=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
top=$(cd "$(dirname "$0")" && pwd)
runc=v1.3.6
VERSION=${VERSION:-$("$top/version.sh")}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$top" log -1 --format=%ct)}
export VERSION SOURCE_DATE_EPOCH
umask 022
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
kit=$work/gpurig-kit-$VERSION-$arch
"$top/stage.sh" "$arch" "$kit"
cp "$top/kit/run" "$kit/run"

case $arch in
"$(go env GOHOSTARCH)") cc=${CC:-cc} ;;
amd64) cc=x86_64-linux-gnu-gcc ;;
*) cc=aarch64-linux-gnu-gcc ;;
esac
mkdir "$work/runc"
cd "$work/runc"
printf 'module kit\n\ngo 1.26\n' >go.mod
export GOFLAGS=-mod=mod GOWORK=off
go get "github.com/opencontainers/runc@$runc"
GOARCH=$arch CC=$cc CGO_ENABLED=1 go build -trimpath -tags netgo,osusergo -ldflags "-s -w -extldflags -static -X main.version=${runc#v}" -o "$kit/bin/runc" github.com/opencontainers/runc
cp "$(go list -m -f '{{.Dir}}' github.com/opencontainers/runc)/LICENSE" "$kit/share/doc/gpurig/runc-LICENSE"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C "$work" -c "$(basename "$kit")" | gzip -9n >"$to"
