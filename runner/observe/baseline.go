package observe

import (
	"slices"
	"strings"

	"gpurig/core/device"
)

// What every container has before any device is given to it, as liblxc makes
// it with lxc.autodev = 1, lxc.mount.auto and no more (src/lxc/conf.c:
// lxc_devs, lxc_fill_autodev, default_mounts). It is left out of an
// Observation, but only as long as it is what it should be: a /dev/null with
// another number is seen.

// OwnDir is where the probe and its socket are bound inside a container. It is
// below LXC's fresh tmpfs, so that it leaves nothing in the root file system,
// and no part of it is ever observed.
const OwnDir = "/dev/.gpurig"

// baseNodes are the nodes of every container. Number 0:0 stands for any: a
// console is 5:1 or a pseudo terminal.
var baseNodes = map[string]device.Num{
	"/dev/null":    {Major: 1, Minor: 3},
	"/dev/zero":    {Major: 1, Minor: 5},
	"/dev/full":    {Major: 1, Minor: 7},
	"/dev/random":  {Major: 1, Minor: 8},
	"/dev/urandom": {Major: 1, Minor: 9},
	"/dev/tty":     {Major: 5, Minor: 0},
	"/dev/ptmx":    {Major: 5, Minor: 2},
	"/dev/console": {},
}

// baseDirs are folders of /dev that are file systems of the kernel's own, or ours.
var baseDirs = []string{"/dev/pts", "/dev/shm", "/dev/mqueue", "/dev/hugepages", "/dev/lxc", OwnDir}

// baseLinks are the links that LXC puts into /dev. Their targets are under
// /proc; /dev/ptmx is a link where the kernel forbids a bind mount.
var baseLinks = map[string][]string{
	"/dev/fd":     {"/proc/self/fd"},
	"/dev/stdin":  {"/proc/self/fd/0"},
	"/dev/stdout": {"/proc/self/fd/1"},
	"/dev/stderr": {"/proc/self/fd/2"},
	"/dev/core":   {"/proc/kcore"},
	"/dev/ptmx":   {"pts/ptmx", "/dev/pts/ptmx"},
}

// baseMounts are the mount points of every container, by file system type; ""
// stands for any type.
var baseMounts = map[string][]string{
	"/":                   {""},
	"/proc":               {"proc"},
	"/proc/sys":           {"proc"},
	"/proc/sys/net":       {"proc"},
	"/proc/sysrq-trigger": {"proc"},
	// LXC gives each container a boot id of its own.
	"/proc/sys/kernel/random/boot_id": {"tmpfs"},
	"/sys":                            {"sysfs"},
	"/sys/devices/virtual/net":        {"sysfs"},
	"/sys/fs/cgroup":                  {"cgroup2", "tmpfs"},
	"/sys/kernel/security":            {"securityfs"},
	"/dev":                            {"tmpfs"},
	"/dev/pts":                        {"devpts"},
	"/dev/ptmx":                       {"devpts"},
	"/dev/console":                    {"devpts"},
	"/dev/shm":                        {"tmpfs"},
	"/dev/mqueue":                     {"mqueue"},
	OwnDir:                            {""},
}

// baseVars are the variables that liblxc gives every first process. Only the
// first group may have any value.
var (
	baseVarNames = []string{"container", "container_ttys", "TERM", "HOME", "USER", "LOGNAME"}
	baseVars     = []string{"PATH=/sbin:/usr/sbin:/bin:/usr/bin"}
)

// What LXD and Incus add to every container (lxd/instance/drivers/driver_lxc.go,
// initLXC), where the host has it: two nodes, their own folders, and the host's
// file systems that a container may look at. One that may nest (security.nesting) has
// the kernel's own besides, whole, so that it may mount them. A folder without its file system is
// a bind of what is below.
var (
	managerNodes = map[string]device.Num{"/dev/fuse": {Major: 10, Minor: 229}, "/dev/net/tun": {Major: 10, Minor: 200}}
	managerDirs  = map[string][]string{
		"lxd":   {"/dev/lxd", "/dev/.lxd-mounts", "/dev/.lxc/proc", "/dev/.lxc/sys"},
		"incus": {"/dev/incus", "/dev/.incus-mounts", "/dev/.lxc/proc", "/dev/.lxc/sys"},
	}

	managerMounts = map[string][]string{
		"/dev/.lxc/proc":            {"proc"},
		"/dev/.lxc/sys":             {"sysfs"},
		"/proc/sys/fs/binfmt_misc":  {"binfmt_misc", "autofs", "proc"},
		"/sys/fs/fuse/connections":  {"fusectl", "sysfs"},
		"/sys/fs/pstore":            {"pstore", "sysfs"},
		"/sys/kernel/config":        {"configfs", "sysfs"},
		"/sys/kernel/debug":         {"debugfs", "sysfs"},
		"/sys/kernel/debug/tracing": {"tracefs", "sysfs"},
		"/sys/kernel/security":      {"securityfs", "sysfs"},
		"/sys/kernel/tracing":       {"tracefs", "sysfs"},
		"/sys/firmware/efi/efivars": {"efivarfs", "sysfs"},
	}
)

// Managers of those names.
const (
	Docker = "docker"
	Podman = "podman"
)

// What Docker and Podman add to every container: files that they bind over the
// image's, the parts of /proc and /sys that they hide or make read-only
// (moby's oci/defaults.go, Podman's specgen/generate/config_linux.go), and the
// container's name in the environment.
var (
	engineFiles = map[string][]string{
		Docker: {"/etc/hostname", "/etc/hosts", "/etc/resolv.conf"},
		Podman: {"/etc/hostname", "/etc/hosts", "/etc/resolv.conf", "/run/.containerenv"},
	}

	engineMounts = []string{
		"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
		"/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/devices/virtual/powercap", "/sys/firmware",
		"/proc/bus", "/proc/fs", "/proc/irq", "/sys/dev/block", "/sys/fs/selinux",
	}
)

func isManagerNode(manager, path string, typ device.Type, num device.Num) bool {
	want, ok := managerNodes[path]
	return managerDirs[manager] != nil && ok && typ == device.Char && want == num
}

func isManagerDir(manager, path string) bool { return slices.Contains(managerDirs[manager], path) }

func isManagerMount(manager string, m MountLine) bool {
	if manager == Podman && strings.Contains(m.Root, "-containers/") && strings.Contains(m.Root, "/userdata/") {
		return true // by whatever links of the image
	}
	if engineFiles[manager] != nil {
		hidden := slices.Contains([]string{"proc", "tmpfs", "devtmpfs"}, m.Type)
		return isManagerFile(manager, m.Target) || hidden && slices.Contains(engineMounts, m.Target)
	}
	_, node := managerNodes[m.Target]
	if m.Type == "fuse.gpurig" { // a fake machine's /sys, where none of these is mounted
		m.Type = "sysfs"
	}
	return manager != "" && (node || isManagerDir(manager, m.Target) || slices.Contains(managerMounts[m.Target], m.Type))
}

// isManagerFile reports whether the manager has a file of its own over that of the image.
func isManagerFile(manager, path string) bool {
	return slices.Contains(engineFiles[manager], path)
}

func isManagerVar(manager, v string) bool {
	return engineFiles[manager] != nil && strings.HasPrefix(v, "HOSTNAME=")
}

func isBaseNode(path string, typ device.Type, num device.Num) bool {
	want, ok := baseNodes[path]
	return ok && typ == device.Char && (!want.Known() || want == num)
}

func isBaseDir(path string) bool { return slices.Contains(baseDirs, path) }

func isBaseLink(path, target string) bool { return slices.Contains(baseLinks[path], target) }

// isBaseMount also knows the standard nodes: where mknod is forbidden (a user
// namespace), LXC binds the host's instead of making its own.
func isBaseMount(m MountLine) bool {
	if isEntered(m) {
		return true
	}
	if types, ok := baseMounts[m.Target]; ok {
		return slices.Contains(types, "") || slices.Contains(types, m.Type)
	}
	_, node := baseNodes[m.Target]
	return node || strings.HasPrefix(m.Target, "/sys/fs/cgroup/") && (m.Type == "cgroup" || m.Type == "cgroup2")
}

func isBaseVar(v string) bool {
	name, _, _ := strings.Cut(v, "=")
	return slices.Contains(baseVarNames, name) || slices.Contains(baseVars, v)
}

// isEntered reports whether a mount is one that every /proc and /sys has on an entered
// fake machine (package fakehw/machine): its files, and what of a sysfs stays the
// container's own. What a plan binds there has another root.
func isEntered(m MountLine) bool {
	switch m.Type {
	case "fuse.gpurig":
		file := strings.HasPrefix(m.Target, "/proc/") && m.Root == "/"+strings.ReplaceAll(m.Target[1:], "/", ".")
		return m.Target == "/sys" && m.Root == "/sys" || m.Target == "/proc/driver" && m.Root == "/driver" || file
	case "tmpfs":
		return m.Target == "/proc/driver/.gpurig"
	case "sysfs":
		return strings.HasPrefix(m.Target, "/sys/")
	}
	return false
}
