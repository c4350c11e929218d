#!/bin/sh
# Installs packages, from the backports of this machine's release of Debian what
# its own suites do not have. The machine's own list of sources stays as it is.
#
#	backports.sh PACKAGE...
set -eu

mirror=$("$(dirname "$0")/mirror.sh") || { echo "note: no $*: this machine's own package sources are no Debian" >&2; exit 1; }
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")-backports
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$tmp/more.list"
cat /etc/apt/sources.list "$tmp/more.list" >"$tmp/all.list" 2>/dev/null || true
apt-get update -q -o Dir::Etc::sourcelist="$tmp/more.list" -o Dir::Etc::sourceparts=/dev/null -o APT::Get::List-Cleanup=false \
	-o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false >/dev/null
# What is installed stays as it is: others use it.
DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends --no-upgrade --no-remove -o Dir::Etc::sourcelist="$tmp/all.list" "$@" >/dev/null
