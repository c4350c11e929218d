package fault

// A Kind is one kind of fault.
type Kind struct {
	Name    string // the word before the colon: "no-driver"
	Form    string // with its arguments: "no-driver[:GPU]"
	Example string
	Is      string // what is broken, one sentence
	// Surface says what is different on such a host, for people.
	Surface string
}

// kinds are in the order in which faults take effect: what the driver and the
// libraries are comes before what is missing of it.
var kinds = []struct {
	Kind
	parse func(f *Fault, args string) error
	act   func(b *Broken, f Fault) error
}{
	{Kind{"no-driver", "no-driver[:GPU]", "no-driver:1",
		"The GPU is on the PCI bus and no driver has it; without a GPU, NVIDIA's driver is not loaded at all.",
		"the driver, and what it makes: its procfs, nodes, NVML's GPUs"}, optionalGPU, breakDriver},
	{Kind{"version-mismatch", "version-mismatch:VERSION", "version-mismatch:570",
		"The libraries were upgraded and the module was not: NVML and CUDA refuse to start until the next boot.",
		"driver files, and NVML as it meets them"}, version, breakVersion},
	{Kind{"half-upgrade", "half-upgrade:VERSION", "half-upgrade:570",
		"An upgrade of the packages stopped half-way: compute libraries of the new version, all other files of the old one, the loader's cache not written yet.",
		"driver files, and NVML as it meets them"}, version, breakHalf},
	{Kind{"no-persistenced", "no-persistenced", "no-persistenced",
		"The socket of nvidia-persistenced is gone; the persistence mode that it set stays.",
		"/run/nvidia-persistenced"}, nothing, breakPersistenced},
	{Kind{"csv-missing", "csv-missing:PATH", "csv-missing:/dev/nvhost-gone",
		"A CSV file of the Tegra names PATH, and nothing is there.",
		"PATH, and the CSV file where none named it"}, absolute, breakCSV},
	{Kind{"no-uvm", "no-uvm", "no-uvm",
		"The module nvidia-uvm is not loaded and does not load: its nodes and its line in /proc/devices are not there.",
		"the module nvidia_uvm, /dev/nvidia-uvm*"}, nothing, breakUVM},
	{Kind{"unmade", "unmade[:GROUP,...]", "unmade:uvm",
		"Nothing has asked for the nodes of the group gpus, modeset, uvm (whose module is not loaded either) or caps since boot: NVML, CUDA and nvidia-modprobe make theirs, and the fault is over; without a group, all.",
		"device nodes, the module nvidia_uvm"}, groups, breakUnmade},
	{Kind{"stale-major", "stale-major:DRIVER=MAJOR", "stale-major:nvidia-uvm=511",
		"The driver has MAJOR in /proc/devices since the last boot, and its nodes keep the number of the one before.",
		"/proc/devices"}, major, breakMajor},
	{Kind{"no-nodes", "no-nodes[:PATTERN]", "no-nodes:/dev/nvidia-caps/*",
		"The module is loaded and the nodes that match are not there; without a pattern, all that NVIDIA's own tools make, /dev/nvidia*.",
		"device nodes"}, pattern, breakNodes},
	{Kind{"node", "node:PATH,mode=MODE,uid=UID,gid=GID", "node:/dev/nvidia0,mode=0600,uid=1000",
		"The node has another mode (octal), owner or group; at least one is given.",
		"that node"}, node, breakNode},
	{Kind{"off-bus", "off-bus:GPU", "off-bus:0",
		"The GPU has fallen off the bus (Xid 79): its configuration space reads as ones, NVML says GPU_IS_LOST to every question about it, CUDA does not list it and fails with 999 where a program has it; nodes and procfs stay.",
		"config and link attributes in sysfs, NVML, CUDA"}, gpu, breakBus},
	{Kind{"xid", "xid:GPU=CODE", "xid:0=48",
		"The driver has reported the Xid CODE of the GPU: NVML's event sets tell programs that wait for it, and nothing else is broken.",
		"events of NVML"}, xid, breakXid},
	{Kind{"nvml", "nvml:CALL[:GPU]=CODE", "nvml:Init=DRIVER_NOT_LOADED",
		"A call of NVML returns CODE, a name without NVML_ERROR_ or a number; \"*\" with a GPU is every call about it.",
		"NVML"}, nvmlCall, breakNVML},
}

// Kinds returns every kind of fault.
func Kinds() []Kind {
	var out []Kind
	for _, k := range kinds {
		out = append(out, k.Kind)
	}
	return out
}

// rank returns the place of a kind in kinds, -1 if there is none.
func rank(name string) int {
	for i, k := range kinds {
		if k.Name == name {
			return i
		}
	}
	return -1
}
