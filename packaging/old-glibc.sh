#!/bin/sh
# Unpacks the C library of Debian 11, the oldest that Debian's registry still
# has, for image glibc-old. It is installed nowhere. Says why not and exits 1.
set -eu

dir=/var/cache/gpurig/glibc-2.31 # runner/image.OldGlibcDir
[ ! -e "$dir" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
	echo "note: no $dir: it takes root and apt-get" >&2
	exit 1
fi
mkdir -p "$(dirname "$dir")"
tmp=$(mktemp -d "$(dirname "$dir")/.old-glibc-XXXXXX")
trap 'rm -rf "$tmp"' EXIT
mkdir -p "$tmp/lists/partial" "$tmp/cache/archives/partial"
# From where this machine has its own packages.
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list 2>/dev/null |
	grep -v '^#' | grep -o 'https\{0,1\}://[^ ]*/debian/\{0,1\}' | head -n 1)
if [ -z "$mirror" ]; then
	echo "note: no $dir: this machine's own package sources are no Debian" >&2
	exit 1
fi
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror bullseye main" >"$tmp/sources.list"
apt() {
	apt-get -q -o Dir::Etc::sourcelist="$tmp/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$tmp/lists" \
		-o Dir::Cache="$tmp/cache" -o APT::Sandbox::User=root -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false "$@" >/dev/null
}
cd "$tmp"
if apt update && apt download libc6/bullseye && dpkg-deb -x libc6_*.deb root; then
	mv -T root "$dir" || [ -e "$dir" ] # or another run was quicker
else
	echo "note: no $dir: libc6 of Debian 11 could not be had" >&2
	exit 1
fi
