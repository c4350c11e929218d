package policy

import (
	"slices"
	"strings"
)

// A Kind says what a Rule is about.
type Kind string

// The kinds of rule, in the order of Table.
const (
	KindDriver     Kind = "driver"       // allows: a name of /proc/devices, of character devices
	KindMisc       Kind = "misc"         // allows: a name of /proc/misc
	KindBlock      Kind = "block-driver" // allows: a name of /proc/devices, of block devices
	KindDriverDeny Kind = "driver-deny"  // forbids: a driver's name, whatever else allows it
	KindDevName    Kind = "dev-name"     // forbids: a name directly below the container's /dev
	KindSource     Kind = "source"       // allows: a host path and what is below it
	KindSourceDeny Kind = "source-deny"  // forbids: a host path in a policy, what is below it, and what holds it
	KindTarget     Kind = "target"       // forbids: a container path, what is below it, and what holds it
	KindTmpfs      Kind = "tmpfs"        // allows: a container path and what is below it, for a tmpfs
	KindOption     Kind = "option"       // allows: a mount option
	KindEnv        Kind = "env"          // allows: an environment variable
	KindEnvDeny    Kind = "env-deny"     // forbids: an environment variable, whatever else allows it
	KindHook       Kind = "hook"         // says what becomes of a hook
)

// A Treatment is what becomes of a hook kind.
type Treatment string

// The treatments of hooks. No hook's program is ever run.
const (
	CarriedOut Treatment = "carried-out" // its work is in the plan
	LeftOut    Treatment = "left-out"    // not done, with a note that says why that is right
)

// LeftOutByPolicy is the reason of hooks that Policy.LeaveOut names.
const LeftOutByPolicy = "left-out-by-policy"

// A Rule is one line of the table.
type Rule struct {
	Kind   Kind      `json:"kind" yaml:"kind"`
	Match  string    `json:"match" yaml:"match"`                       // a name or path; "*" in names of drivers and variables as in path.Match
	Tegra  bool      `json:"tegra,omitempty" yaml:"tegra,omitempty"`   // holds on Tegra SoCs only
	Itself bool      `json:"itself,omitempty" yaml:"itself,omitempty"` // of a source: the path itself too, not only what is below it
	Write  bool      `json:"write,omitempty" yaml:"write,omitempty"`   // of a source: the container may write through the mount
	Only   bool      `json:"only,omitempty" yaml:"only,omitempty"`     // of a target: the path itself and what holds it, not what is below it
	Hook   Treatment `json:"hook,omitempty" yaml:"hook,omitempty"`     // of a hook
	Reason string    `json:"reason,omitempty" yaml:"reason,omitempty"` // of a hook that is not carried out: a stable word
	Why    string    `json:"why" yaml:"why"`                           // for people, a few words or a sentence
}

// Name returns how messages name the rule: "target /proc".
func (r Rule) Name() string { return string(r.Kind) + " " + r.Match }

// Table returns every rule of the defaults, by kind, for people and for tests.
func Table() []Rule {
	return slices.Concat(drivers, misc, driverDeny, devNames, sources, sourceDeny, targets, options, envAllow, envDeny, hooks)
}

// widened is why a rule of a policy allows something.
const widened = "widened on this host"

// The table. These variables are never written to.
var (
	drivers = list(KindDriver, `
nvidia                    | NVIDIA GPUs (driver 545 and newer)
nvidia-frontend           | NVIDIA GPUs (driver 535 and older)
nvidiactl                 | NVIDIA control node
nvidia-modeset            | NVIDIA mode setting
nvidia-uvm                | NVIDIA unified memory
nvidia-caps               | NVIDIA capabilities: MIG, fabric management
nvidia-caps-imex-channels | NVIDIA memory export channels
nvidia-nvswitch           | NVIDIA NVSwitch
nvidia-nvlink             | NVIDIA NVLink
nvidia-fs                 | NVIDIA GPUDirect Storage
gdrdrv                    | NVIDIA GPUDirect copy
infiniband_verbs          | RDMA for GPUDirect
drm                       | DRM card and render nodes
kfd                       | AMD compute
accel                     | compute accelerators
nvhost*                   | tegra: host1x engines
nvgpu*                    | tegra: integrated GPU
nvmap                     | tegra: buffer memory
nvsciipc                  | tegra: NvSciIpc
host1x*                   | tegra: host1x
tegra*                    | tegra: display and engines
*.gpu                     | tegra: integrated GPU, by its platform device
*.ga10b                   | tegra: integrated GPU of Orin
*.gv11b                   | tegra: integrated GPU of Xavier
*.gp10b                   | tegra: integrated GPU of TX2
fb                        | tegra: frame buffers
video4linux               | tegra: video engines`)

	misc = list(KindMisc, `
dxg          | GPU of WSL 2
rdma_cm      | RDMA for GPUDirect
nvmap        | tegra: buffer memory
nvsciipc     | tegra: NvSciIpc
host1x-fence | tegra: host1x fences
nvhost-ctrl  | tegra: host1x`)

	driverDeny = list(KindDriverDeny, `
mem | memory and ports of the host`)

	devNames = list(KindDevName, `
null    | every container has its own
zero    | every container has its own
full    | every container has its own
random  | every container has its own
urandom | every container has its own
tty*    | terminals are the container manager's
console | terminals are the container manager's
ptmx    | terminals are the container manager's
pts     | terminals are the container manager's
shm     | shared memory of the container
mqueue  | message queues of the container
hugepages | huge pages of the container
fd      | a link of the container manager
stdin   | a link of the container manager
stdout  | a link of the container manager
stderr  | a link of the container manager
core    | a link of the container manager
log     | the container's log socket
initctl | the container's init
mem     | memory of the host
kmem    | memory of the host
port    | ports of the host
kmsg    | log of the host
lxc     | directory of the container manager
lxd     | directory of the container manager
incus   | directory of the container manager
.*      | hidden names are the container manager's`)

	sources = sourceRules(`
/usr/lib       |        | libraries and firmware
/usr/lib32     |        | libraries
/usr/lib64     |        | libraries
/usr/libx32    |        | libraries
/usr/bin       |        | driver tools
/usr/sbin      |        | driver tools
/usr/share     |        | data files of the driver
/usr/local     |        | drivers and tools that no package manager brought
/usr/X11R6     |        | X modules of the driver
/lib           |        | libraries and firmware
/lib32         |        | libraries
/lib64         |        | libraries
/bin           |        | driver tools
/sbin          |        | driver tools
/opt           |        | drivers that vendors install
/nix/store     |        | drivers of NixOS
/gnu/store     |        | drivers of Guix
/run/opengl-driver     | itself | drivers of NixOS
/run/opengl-driver-32  | itself | drivers of NixOS
/run/nvidia/driver     |        | driver container of the GPU operator
/home/kubernetes/bin/nvidia | itself | drivers of Container-Optimized OS
/var/lib/nvidia        | itself | drivers of Container-Optimized OS
/var/nvidia            | itself | camera settings of Tegra
/etc/OpenCL            |        | driver registration
/etc/vulkan            |        | driver registration
/etc/vulkansc          |        | driver registration
/etc/glvnd             |        | driver registration
/etc/egl               |        | driver registration
/etc/X11               |        | display driver settings
/etc/nvidia            |        | driver settings
/etc/nvidia-imex       |        | memory export settings
/etc/nvidia-container-runtime/host-files-for-container.d | itself | file lists of Tegra, for a toolkit inside the container
/etc/nv_tegra_release  | itself | release of Tegra
/etc/cufile.json       | itself | GPUDirect Storage settings
/run/udev              | itself | device database, for GPUDirect Storage
/dev/dri/by-path       | itself | links to DRM nodes
/proc/driver/nvidia    |        | what the driver says of its GPUs
/run/nvidia-persistenced  | itself write | socket of nvidia-persistenced
/run/nvidia-fabricmanager | itself write | socket of the fabric manager
/tmp/nvidia-mps           | itself write | pipes of the multi-process service`)

	// What gives the host away: nothing that a GPU needs lies there.
	sourceDeny = list(KindSourceDeny, `
/boot                 | kernels
/dev/mem              | memory of the host
/dev/disk             | disks
/etc/shadow           | accounts
/etc/gshadow          | accounts
/etc/sudoers          | accounts
/etc/ssh              | remote access
/proc/1               | processes of the host
/proc/kcore           | memory of the host
/proc/sys             | kernel settings
/proc/sysrq-trigger   | kernel settings
/root                 | a person's files
/run/containerd       | a container manager's socket
/run/crio             | a container manager's socket
/run/dbus             | message bus
/run/docker.sock      | a container manager's socket
/run/incus            | a container manager's socket
/run/lxc              | a container manager's state
/run/podman           | a container manager's socket
/run/snapd.socket     | a package manager's socket
/run/systemd          | init
/sys/fs/cgroup        | limits of every container
/sys/kernel           | kernel settings
/var/lib/containerd   | a container manager's state
/var/lib/docker       | a container manager's state
/var/lib/incus        | a container manager's state
/var/lib/lxc          | a container manager's state
/var/lib/lxd          | a container manager's state
/var/snap/lxd         | a container manager's state`)

	targets = targetRules(`
/proc                 | kernel interfaces
/sys                  | kernel interfaces
/dev                  | only | the container's devices
/etc                  | only | the container's settings
/etc/passwd           | accounts
/etc/group            | accounts
/etc/shadow           | accounts
/etc/gshadow          | accounts
/etc/subuid           | accounts
/etc/subgid           | accounts
/etc/sudoers          | accounts
/etc/sudoers.d        | accounts
/etc/pam.d            | accounts
/etc/security         | accounts
/etc/ssh              | remote access
/etc/nsswitch.conf    | name service
/etc/init.d           | init
/etc/inittab          | init
/etc/systemd          | init
/etc/profile          | shells
/etc/profile.d        | shells
/etc/cron.d           | jobs
/etc/crontab          | jobs
/etc/ld.so.preload    | code for every process
/etc/ld.so.cache      | the library cache is written, not mounted
/etc/ld.so.conf       | the library cache is written, not mounted
/etc/ld.so.conf.d     | only | the library cache is written, not mounted
/root                 | a person's files
/home                 | only | people's files
/boot                 | kernels
/run                  | only | run time files
/run/systemd          | init
/run/dbus             | message bus
/run/lxc              | the container manager
/var/lib/lxc          | the container manager
/sbin/init            | init
/usr/sbin/init        | init
/bin/sh               | the shell
/usr/bin/sh           | the shell
/lib/systemd          | init
/usr/lib/systemd      | init
/lib/ld-linux.so.2         | the loader
/lib64/ld-linux-x86-64.so.2 | the loader
/lib/ld-linux-aarch64.so.1  | the loader
/usr/lib64/ld-linux-x86-64.so.2 | the loader
/usr/lib/ld-linux-aarch64.so.1  | the loader
/usr                  | only | the container's programs
/opt                  | only | the container's programs
/nix/store            | only | the container's programs
/var                  | only | the container's state
/tmp                  | only | temporary files
/mnt                  | only | mounts
/usr/share            | only | the container's data
/usr/lib/x86_64-linux-gnu  | only | the container's libraries
/usr/lib/aarch64-linux-gnu | only | the container's libraries`)

	options = list(KindOption, `
ro       | read-only
rw       | writable
nosuid   | no set-user-id programs
nodev    | no device nodes
noexec   | no programs
bind     | this directory or file
rbind    | with what is mounted below it
private  | no propagation
rprivate | no propagation
slave    | propagation into the container
rslave   | propagation into the container`)

	envAllow = list(KindEnv, `
NVIDIA_*             | NVIDIA's libraries and tools
CUDA_*               | CUDA
NVSHMEM_*            | NVIDIA's libraries
NCCL_*               | NVIDIA's libraries
ROCR_VISIBLE_DEVICES | which AMD GPUs are used
HIP_VISIBLE_DEVICES  | which AMD GPUs are used
GPU_DEVICE_ORDINAL   | which AMD GPUs are used
AMD_VISIBLE_DEVICES  | which AMD GPUs are used
ZE_AFFINITY_MASK     | which Intel GPUs are used
ONEAPI_DEVICE_SELECTOR | which Intel GPUs are used`)

	envDeny = list(KindEnvDeny, `
LD_*            | the loader obeys it, in hooks of the container manager too
GLIBC_*         | the C library obeys it
GCONV_PATH      | the C library loads code from it
GETCONF_DIR     | the C library obeys it
HOSTALIASES     | the C library obeys it
LOCALDOMAIN     | the C library obeys it
LOCPATH         | the C library obeys it
MALLOC_*        | the C library obeys it
NIS_PATH        | the C library obeys it
NLSPATH         | the C library obeys it
RESOLV_HOST_CONF | the C library obeys it
RES_OPTIONS     | the C library obeys it
TMPDIR          | programs write where it says
TZDIR           | the C library obeys it
PATH            | programs are found by it
HOME            | programs read settings where it says
SHELL           | programs start it
USER            | accounts
LOGNAME         | accounts
TERM            | terminals
TERMINFO*       | terminals
IFS             | shells obey it
ENV             | shells run it
BASH_*          | shells run it
SHELLOPTS       | shells obey it
BASHOPTS        | shells obey it
PS[0-9]         | shells run it
PROMPT_COMMAND  | shells run it
CDPATH          | shells obey it
GODEBUG         | Go programs obey it
GOTRACEBACK     | Go programs obey it
GOMAXPROCS      | Go programs obey it
GOGC            | Go programs obey it
GOMEMLIMIT      | Go programs obey it
PYTHON*         | Python runs it
PERL*           | Perl runs it
RUBY*           | Ruby runs it
NODE_*          | Node runs it
JAVA_*          | Java runs it
NVIDIA_GPU_MEMORY_* | it asks for a limit of GPU memory, which nothing here would keep
LXC_*           | the container manager's own
LXD_*           | the container manager's own
container       | the container manager's own
container_*     | the container manager's own
NOTIFY_SOCKET   | init obeys it
LISTEN_*        | init obeys it`)

	hooks = hookRules(`
create-symlinks | carried-out | - | links are made inside the root
update-ldcache  | carried-out | - | the library cache is written, no ldconfig runs
chmod           | carried-out | - | modes of directories and nodes below /dev
enable-cuda-compat | left-out | needs-image-libraries | it would put libraries of the image before the driver's; the driver's own libraries are used
disable-device-node-modification | left-out | no-driver-parameters | it would cover /proc/driver/nvidia/params; the device cgroup keeps other nodes unusable
update-application-profile | left-out | no-application-profile | it would write a profile of visible GPUs for EGL and Vulkan; only the nodes of the chosen GPUs are in the container
apply-cuda-memory-limits | left-out | no-memory-limit | it sets the GPU memory limit that NVIDIA_GPU_MEMORY_REQUEST or NVIDIA_GPU_MEMORY_LIMIT asks for and does nothing without them; a Spec that sets one is refused
create-soname-symlinks | carried-out | - | the library cache finds libraries by their SONAME
noop | left-out | does-nothing | it does nothing by design`)
)

// lines splits a block into its rows, and each row at the bars.
func lines(block string) [][]string {
	var rows [][]string
	for row := range strings.SplitSeq(strings.TrimSpace(block), "\n") {
		cols := strings.Split(row, "|")
		for i := range cols {
			cols[i] = strings.TrimSpace(cols[i])
		}
		rows = append(rows, cols)
	}
	return rows
}

func list(k Kind, block string) []Rule {
	var rs []Rule
	for _, c := range lines(block) {
		why, tegra := strings.CutPrefix(c[1], "tegra: ")
		rs = append(rs, Rule{Kind: k, Match: c[0], Tegra: tegra, Why: why})
	}
	return rs
}

func sourceRules(block string) []Rule {
	var rs []Rule
	for _, c := range lines(block) {
		rs = append(rs, Rule{Kind: KindSource, Match: c[0], Itself: strings.Contains(c[1], "itself"), Write: strings.Contains(c[1], "write"), Why: c[2]})
	}
	return rs
}

func targetRules(block string) []Rule {
	var rs []Rule
	for _, c := range lines(block) {
		rs = append(rs, Rule{Kind: KindTarget, Match: c[0], Only: len(c) == 3, Why: c[len(c)-1]})
	}
	return rs
}

func hookRules(block string) []Rule {
	var rs []Rule
	for _, c := range lines(block) {
		reason := strings.TrimPrefix(c[2], "-")
		rs = append(rs, Rule{Kind: KindHook, Match: c[0], Hook: Treatment(c[1]), Reason: reason, Why: c[3]})
	}
	return rs
}
