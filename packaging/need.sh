#!/bin/sh
# Installs what some targets need, when it may: as root, on a machine with apt.
# Says what is missing otherwise and exits 1; the caller decides what that means.
set -eu

[ $# -gt 0 ] || set -- none
missing="" packages="" incus=""
for part; do
	case "$part" in
	lxc) programs="lxc-start newuidmap strace mkfs.ext4 mkfs.btrfs crun"; wanted="crun lxc uidmap busybox-static musl strace e2fsprogs btrfs-progs" ;;
	lxd) programs="lxd lxc unshare newuidmap"; wanted="lxd lxd-client uidmap util-linux busybox-static musl" ;;
	incus) programs="incusd unshare newuidmap"; wanted="incus-base uidmap util-linux busybox-static musl"; PATH=$PATH:/usr/libexec/incus ;; # where Debian has it
	oci) programs="runc crun"; wanted="runc crun busybox-static musl" ;;
	docker) programs="dockerd runc lxd unshare newuidmap"; wanted="docker.io runc lxd uidmap util-linux busybox-static musl" ;; # LXD for Docker inside it
	podman) programs="podman conmon runc unshare"; wanted="podman conmon runc util-linux busybox-static musl" ;;
	machine) programs="lspci setpriv cc mdevctl uuidgen fusermount3"; wanted="pciutils util-linux gcc libc6-dev mdevctl uuid-runtime fuse3" ;;
	slurm) programs="slurmctld slurmd munged sbatch setpriv"; wanted="slurm-wlm munge util-linux" ;;
	chromium) programs="chromium"; wanted="chromium" ;;
	*) echo "usage: need.sh {lxc|lxd|incus|oci|docker|podman|machine|slurm|chromium}..." >&2; exit 2 ;;
	esac
	lacks=""
	for p in $programs; do
		command -v "$p" >/dev/null 2>&1 || lacks="$lacks $p"
	done
	if [ "$part" != machine ] && [ "$part" != slurm ] && [ "$part" != chromium ]; then # a root file system of a container
		[ -x /bin/busybox ] || lacks="$lacks busybox"
		[ -n "$(ls /lib/ld-musl-*.so.1 2>/dev/null)" ] || lacks="$lacks musl"
	fi
	[ -n "$lacks" ] || continue
	missing="$missing$lacks"
	[ "$part" != incus ] && packages="$packages $wanted" || incus="$wanted"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" != 0 ]; then
	echo "note: no$missing; as root: apt-get install $packages $incus" >&2
	exit 1
fi
if ! command -v apt-get >/dev/null 2>&1; then
	echo "note: no$missing, and no apt-get to install $packages $incus" >&2
	exit 1
fi
export DEBIAN_FRONTEND=noninteractive
# What is there is left as it is: somebody may be compiling with it.
install() { apt-get install -y -q --no-install-recommends --no-upgrade "$@" >/dev/null; }
# A list may be there already; only when it does not serve is a new one fetched.
if ! install $packages $incus 2>/dev/null; then
	apt-get update -q >/dev/null
	if [ -n "$incus" ] && ! apt-cache show incus-base >/dev/null 2>&1; then # Debian 12
		[ -z "$packages" ] || install $packages
		"$(dirname "$0")/backports.sh" $incus
	else
		install $packages $incus
	fi
fi
