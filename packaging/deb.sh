#!/bin/sh
# deb.sh ARCH FOLDER DEB: makes the Debian package DEB of what stage.sh has put into FOLDER
# for ARCH. DEBFULLNAME and DEBEMAIL name its maintainer, else the last commit's author.
set -eu
[ $# = 3 ] || { echo "usage: deb.sh ARCH FOLDER DEB" >&2; exit 2; }
arch=$1 from=$2 deb=$3
top=$(dirname "$0")
umask 022
version=${VERSION:-$("$top/version.sh")}
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git -C "$top" log -1 --format=%ct)}"
maintainer="${DEBFULLNAME:-$(git -C "$top" log -1 --format=%an)} <${DEBEMAIL:-$(git -C "$top" log -1 --format=%ae)}>"
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root/DEBIAN" "$root/usr/share/lintian/overrides"
cp -a "$from/." "$root/usr/"
chmod 755 "$root" "$root/usr"

doc=$root/usr/share/doc/gpurig
rm "$doc/LICENSE" # Debian has it once
cat >"$doc/copyright" <<EOF
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: gpurig
Comment: Modules that are linked into the programs, and their licenses, are in
 third-party-licenses.txt and sbom.spdx.json.

Files: *
Copyright: $(date -u -d "@$SOURCE_DATE_EPOCH" +%Y) the authors of gpurig
License: Apache-2.0
 On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.
EOF
gzip -9n "$doc/third-party-licenses.txt"
sed -i 's/third-party-licenses.txt/&.gz/' "$doc/copyright"
{
	printf 'gpurig (%s) unstable; urgency=medium\n\n  * This version; CHANGELOG.md in the source lists what is new.\n\n' "$version"
	printf ' -- %s  %s\n' "$maintainer" "$(date -Ru -d "@$SOURCE_DATE_EPOCH")"
} | gzip -9n >"$doc/changelog.gz"
cat >"$root/usr/share/lintian/overrides/gpurig" <<EOF
# They run in containers, whose C library may be any or none.
gpurig: statically-linked-binary [usr/lib/gpurig/cdi-hook]
gpurig: statically-linked-binary [usr/lib/gpurig/gpurig-probe]
# Go would compile all of it once more for these; nothing of them takes input over a network.
gpurig: hardening-no-pie [usr/bin/gpurig]
gpurig: hardening-no-pie [usr/lib/gpurig/gpurig-docker]
gpurig: hardening-no-pie [usr/lib/gpurig/nvidia-container-cli]
gpurig: hardening-no-pie [usr/lib/gpurig/gpurig-smoke]
gpurig: hardening-no-relro [usr/lib/gpurig/gpurig-smoke]
EOF
cat >"$root/DEBIAN/control" <<EOF
Package: gpurig
Version: $version
Architecture: $arch
Maintainer: $maintainer
Installed-Size: $(du -sk --apparent-size "$root/usr" | cut -f1)
Depends: libc6 (>= 2.34)
Recommends: fuse3
Suggests: lxc, lxd, runc, crun, docker.io, pciutils, busybox-static, musl
Section: utils
Priority: optional
Description: tests of GPU passthrough into system containers without GPUs
 gpurig runs scenarios of GPU passthrough: simulated in milliseconds, in real
 containers (LXC, LXD, Incus, runc, crun, Docker) on a fake host, and on real
 hardware. It has fake hosts with NVIDIA and AMD GPUs, from workstations to MIG
 and Jetson, on which any program runs unmodified.
EOF
(cd "$root" && find usr -type f | LC_ALL=C sort | xargs -d '\n' md5sum) >"$root/DEBIAN/md5sums"
find "$root" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group -Zxz --build "$root" "$deb" >/dev/null
