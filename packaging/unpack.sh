#!/bin/sh
# Unpacks packages of another suite of Debian into a folder of /var/cache/gpurig,
# from where this machine has its own packages. They are installed nowhere. Says
# why not and exits 1.
#
#	unpack.sh [--with-dependencies] FOLDER SUITE PACKAGE...
#
# With its dependencies a package is there as on a machine that has nothing else;
# a name may then be a regular expression, as apt-get has them.
set -eu

all=""
[ "$1" != --with-dependencies ] || { all=yes && shift; }
dir=/var/cache/gpurig/$1 suite=$2
here=$(cd "$(dirname "$0")" && pwd)
shift 2
[ ! -e "$dir" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
	echo "note: no $dir: it takes root and apt-get" >&2
	exit 1
fi
mkdir -p "$(dirname "$dir")"
tmp=$(mktemp -d "$(dirname "$dir")/.unpack-XXXXXX")
trap 'rm -rf "$tmp"' EXIT
mkdir -p "$tmp/lists/partial" "$tmp/cache/archives/partial" "$tmp/root"
if ! mirror=$("$here/mirror.sh"); then
	echo "note: no $dir: this machine's own package sources are no Debian" >&2
	exit 1
fi
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$tmp/sources.list"
apt() {
	apt-get -q -o Dir::Etc::sourcelist="$tmp/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$tmp/lists" \
		-o Dir::Cache="$tmp/cache" -o APT::Sandbox::User=root -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false "$@" >/dev/null
}
cd "$tmp"
fail() {
	echo "note: no $dir: $1 of Debian's $suite could not be had" >&2
	exit 1
}
apt update || fail "the list of packages"
if [ "$all" ]; then
	: >status # of packages that are installed
	apt -o Dir::State::status="$tmp/status" install --download-only -y --no-install-recommends "$@" || fail "$*"
	for p in cache/archives/*.deb; do dpkg-deb -x "$p" root || fail "$p"; done
	set --
fi
for p in "$@"; do
	apt download "$p/$suite" && dpkg-deb -x "$p"_*.deb root || fail "$p"
done
mv -T root "$dir" || [ -e "$dir" ] # or another run was quicker
