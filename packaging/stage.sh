#!/bin/sh
# stage.sh ARCH FOLDER: builds gpurig for amd64 or arm64 into FOLDER, which stands for
# /usr or /usr/local of the machine that will have it:
#   bin/gpurig, and lib/gpurig with the programs that it runs and the C libraries of fake hosts
#   share/man, shell completions, share/doc/gpurig with a bill of materials
# The same source and the same tools give the same bytes, wherever they are.
set -eu
[ $# = 2 ] || { echo "usage: stage.sh ARCH FOLDER" >&2; exit 2; }
arch=$1
mkdir -p "$2"
to=$(cd "$2" && pwd)
cd "$(dirname "$0")/.."
native=$(go env GOHOSTARCH)
case $arch in
"$native") cc=${CC:-cc} ;;
amd64) cc=x86_64-linux-gnu-gcc ;;
arm64) cc=aarch64-linux-gnu-gcc ;;
*) echo "error: architecture $arch: want amd64 or arm64" >&2; exit 2 ;;
esac
command -v "$cc" >/dev/null || { echo "error: no $cc, which gpurig for $arch is compiled with: apt-get install gcc${cc#*-linux-gnu-gcc}-$(echo "${cc%-gcc}" | tr _ -) on Debian" >&2; exit 1; }
umask 022
version=${VERSION:-$(packaging/version.sh)}
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"
export GOFLAGS="-trimpath -buildvcs=false"
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
go build -ldflags "-X gpurig/runner/cli.version=$version" -o "$tools/" ./packaging/clibs ./packaging/manual ./packaging/sbom

lib=$to/lib/gpurig share=$to/share doc=$to/share/doc/gpurig
mkdir -p "$to/bin" "$lib" "$doc"
export GOOS=linux GOARCH="$arch"
CC=$cc CGO_ENABLED=1 go build -ldflags "-s -w -X gpurig/runner/cli.version=$version" -o "$lib/" ./cmd/gpurig ./cmd/gpurig-docker ./cmd/nvidia-container-cli
CGO_ENABLED=0 go build -tags osusergo,netgo -ldflags '-s -w' -o "$lib/" ./cmd/gpurig-probe ./cmd/gpurig-smoke
CGO_ENABLED=0 go build -tags osusergo,netgo -ldflags '-s -w -E gpurig/hook.entry' -o "$lib/" ./cmd/cdi-hook
mv "$lib/gpurig" "$to/bin/"
ln -sf ../lib/gpurig/gpurig-smoke "$to/bin/gpurig-smoke"
CC=$cc "$tools/clibs" "$lib"
strip=${cc%gcc}strip
[ "$cc" != "${cc%gcc}" ] || strip=strip
"$strip" --strip-unneeded --remove-section=.comment "$lib"/*/*
chmod 644 "$lib"/*/*.so*

"$tools/manual" "$share"
cp packaging/gpurig-smoke.1 "$share/man/man1/"
gzip -9nf "$share"/man/man1/*.1
cp -R README.md LICENSE docs "$doc/"
"$tools/sbom" "$version" "$to/bin/gpurig" "$lib"/gpurig-* "$lib/cdi-hook" "$lib/nvidia-container-cli" >"$doc/sbom.spdx.json"
go list -deps -f '{{with .Module}}{{.Path}}	{{.Version}}	{{.Dir}}{{end}}' ./cmd/... | sort -u | while IFS='	' read -r module v dir; do
	[ "$module" != gpurig ] || continue
	for f in "$dir"/LICEN[CS]E* "$dir"/COPYING* "$dir"/NOTICE*; do
		[ ! -f "$f" ] || { printf '\n==== %s %s: %s\n\n' "$module" "$v" "${f##*/}"; cat "$f"; }
	done
done >"$doc/third-party-licenses.txt"
