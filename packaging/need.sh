#!/bin/sh
# Installs what one target needs, when it may: as root, on a machine with apt.
# Says what is missing otherwise and exits 1; the caller decides what that means.
set -eu

case "${1:-}" in
lxc) programs="lxc-start newuidmap strace mkfs.ext4 mkfs.btrfs crun"; packages="crun lxc uidmap busybox-static musl strace e2fsprogs btrfs-progs" ;;
lxd) programs="lxd lxc unshare newuidmap"; packages="lxd lxd-client uidmap util-linux busybox-static musl" ;;
incus) programs="incusd unshare newuidmap"; packages="incus-base uidmap util-linux busybox-static musl"; PATH=$PATH:/usr/libexec/incus ;; # where Debian has it
oci) programs="runc crun"; packages="runc crun busybox-static musl" ;;
docker) programs="dockerd runc lxd unshare newuidmap"; packages="docker.io runc lxd uidmap util-linux busybox-static musl" ;; # LXD for Docker inside it
machine) programs="lspci setpriv cc mdevctl uuidgen fusermount3"; packages="pciutils util-linux gcc libc6-dev mdevctl uuid-runtime fuse3" ;;
*) echo "usage: need.sh lxc|lxd|incus|oci|docker|machine" >&2; exit 2 ;;
esac

missing=""
for p in $programs; do
	command -v "$p" >/dev/null 2>&1 || missing="$missing $p"
done
if [ "$1" != machine ]; then # a root file system of a container
	[ -x /bin/busybox ] || missing="$missing busybox"
	[ -n "$(ls /lib/ld-musl-*.so.1 2>/dev/null)" ] || missing="$missing musl"
fi
[ -n "$missing" ] || exit 0

if [ "$(id -u)" != 0 ]; then
	echo "note: no$missing; as root: apt-get install $packages" >&2
	exit 1
fi
if ! command -v apt-get >/dev/null 2>&1; then
	echo "note: no$missing, and no apt-get to install $packages" >&2
	exit 1
fi
export DEBIAN_FRONTEND=noninteractive
install() { apt-get install -y -q --no-install-recommends $packages >/dev/null; }
# A list may be there already; only when it does not serve is a new one fetched.
if ! install 2>/dev/null; then
	apt-get update -q >/dev/null
	if [ "$1" = incus ] && ! apt-cache show incus-base >/dev/null 2>&1; then # Debian 12
		"$(dirname "$0")/backports.sh" $packages
	else
		install
	fi
fi
