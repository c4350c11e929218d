package fakehw

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"gpurig/core/memo"
	"gpurig/fakehw/catalog"
	"gpurig/fakehw/tree"
)

// systems keeps the trees of what machines are without their PCI functions.
var systems = memo.Map[string, *tree.Tree]{Limit: 16}

// system adds what firmware and kernel say of the machine: SMBIOS, processors, NUMA
// nodes, the kernel's own configuration. Hosts on the same chassis share it.
func (b *builder) system() {
	c := b.around.chassis
	key := fmt.Sprint(c.Vendor, c.Product, c.BIOS, c.Processors, c.NodeGiB, b.m.Kernel, b.m.Arch, b.m.OS.ID, b.m.Tegra != nil)
	t, err := systems.Get(context.Background(), key, func() (*tree.Tree, error) {
		in := &builder{t: tree.New(), m: b.m}
		in.firmware(c)
		in.processors(c.Processors)
		in.numa(c)
		in.kernel()
		return in.t.Freeze(), in.err
	})
	b.do(err)
	if err == nil {
		b.t.Share(t)
	}
}

// firmware makes what SMBIOS says (drivers/firmware/dmi-id.c). Serial numbers are those
// of nobody.
func (b *builder) firmware(c *catalog.Chassis) {
	at := "/sys/devices/virtual/dmi/id"
	year := c.Date[max(len(c.Date)-2, 0):]
	modalias := fmt.Sprintf("dmi:bvn%s:bvr%s:bd%s:svn%s:pn%s:pvrv1.0:rvn%s:rn%s:rvrv1.0:cvn%s:ct%d:cvrv1.0:",
		squeezed(c.BIOSVendor), squeezed(c.BIOS), c.Date, squeezed(c.Vendor), squeezed(c.Product), squeezed(c.Vendor), squeezed(c.Board), squeezed(c.Vendor), c.Type)
	for name, text := range map[string]string{
		"bios_vendor": c.BIOSVendor, "bios_version": c.BIOS, "bios_date": c.Date, "bios_release": "5." + year,
		"sys_vendor": c.Vendor, "product_name": c.Product, "product_version": "v1.0", "product_family": c.Family, "product_sku": "Default string",
		"board_vendor": c.Vendor, "board_name": c.Board, "board_version": "v1.0", "board_asset_tag": "Default string",
		"chassis_vendor": c.Vendor, "chassis_type": strconv.Itoa(c.Type), "chassis_version": "v1.0", "chassis_asset_tag": "Default string",
		"modalias": modalias,
	} {
		b.attr(at+"/"+name, text+"\n")
	}
	for _, name := range []string{"product_serial", "board_serial", "chassis_serial"} {
		b.file(at+"/"+name, "Not Specified\n", 0o400)
	}
	b.file(at+"/product_uuid", uuid(0, "chassis ", c.Product)+"\n", 0o400)
	b.file(at+"/uevent", "MODALIAS="+modalias+"\n", 0o644)
	b.power(at, "auto")
	b.link(at+"/subsystem", "/sys/class/dmi")
	b.link("/sys/class/dmi/id", at)
}

// squeezed is text as it stands in a modalias: printable, without blanks and colons.
func squeezed(s string) string { return strings.NewReplacer(" ", "", ":", "").Replace(s) }

// processors makes /sys/devices/system/cpu and /proc/cpuinfo.
func (b *builder) processors(p catalog.Processors) {
	top := "/sys/devices/system/cpu"
	n := p.Count()
	all := fmt.Sprintf("0-%d\n", n-1)
	for name, text := range map[string]string{"online": all, "possible": all, "present": all, "offline": "\n", "isolated": "\n", "nohz_full": "(null)\n", "kernel_max": "8191\n",
		"smt/active": map[bool]string{true: "1\n", false: "0\n"}[p.Threads > 1 || p.Paired > 0], "smt/control": map[bool]string{true: "on\n", false: "notsupported\n"}[p.Threads > 1 || p.Paired > 0]} {
		b.attr(top+"/"+name, text)
	}
	type set struct{ list, mask string }
	sets := map[[2]int]set{} // of CPUs: 0 and a package, 1 and what shares a cache
	members := map[[2]int][]int{}
	share := max(p.Model.Share, 1)
	for cpu := range n {
		core, _ := p.Core(cpu)
		for _, k := range [][2]int{{0, p.Socket(cpu)}, {1, core / share}} {
			members[k] = append(members[k], cpu)
		}
	}
	for k, cpus := range members {
		sets[k] = set{ranges(cpus) + "\n", maskOf(cpus) + "\n"}
	}
	first := map[[2]int]string{} // folder of the first with a set
	perSocket := p.Nodes * p.Cores / p.Sockets
	line := func(n int) string { return strconv.Itoa(n) + "\n" }
	for cpu := range n {
		at := top + "/cpu" + strconv.Itoa(cpu)
		core, threads := p.Core(cpu)
		node := strconv.Itoa(p.Node(cpu))
		b.file(at+"/uevent", "DRIVER=processor\nMODALIAS=cpu:type\n", 0o644)
		b.link(at+"/node"+node, "/sys/devices/system/node/node"+node)
		if cpu > 0 {
			b.file(at+"/online", "1\n", 0o644)
		}
		if cpu != threads[0] { // what threads of a core have in common
			of := top + "/cpu" + strconv.Itoa(threads[0])
			b.do(b.t.Same(at+"/topology", of+"/topology"))
			b.do(b.t.Same(at+"/cache", of+"/cache"))
			continue
		}
		own, whole := set{ranges(threads) + "\n", maskOf(threads) + "\n"}, sets[[2]int{0, p.Socket(cpu)}]
		b.do(b.t.Fill(at+"/topology", [][2]string{{"core_id", line(core % perSocket)}, {"physical_package_id", line(p.Socket(cpu))}, {"die_id", "0\n"},
			{"thread_siblings_list", own.list}, {"core_cpus_list", own.list}, {"thread_siblings", own.mask}, {"core_cpus", own.mask},
			{"core_siblings_list", whole.list}, {"package_cpus_list", whole.list}, {"core_siblings", whole.mask}, {"package_cpus", whole.mask}}))
		third := [2]int{1, core / share}
		for i, x := range []struct {
			level, id, kib int
			kind           string
			in             set
		}{{1, core, p.Model.L1d, "Data", own}, {1, core, p.Model.L1i, "Instruction", own}, {2, core, p.Model.L2, "Unified", own}, {3, third[1], p.Model.L3, "Unified", sets[third]}} {
			at := at + "/cache/index" + strconv.Itoa(i)
			if of := first[third]; i == 3 && of != "" {
				b.do(b.t.Same(at, of))
				continue
			}
			ways := map[int]int{1: 8, 2: 8, 3: 16}[x.level]
			b.do(b.t.Fill(at, [][2]string{{"level", line(x.level)}, {"type", x.kind + "\n"}, {"size", strconv.Itoa(x.kib) + "K\n"}, {"id", line(x.id)},
				{"shared_cpu_list", x.in.list}, {"shared_cpu_map", x.in.mask}, {"coherency_line_size", "64\n"}, {"ways_of_associativity", line(ways)},
				{"number_of_sets", line(x.kib << 10 / 64 / ways)}}))
			if i == 3 {
				first[third] = at
			}
		}
	}
	b.attr("/proc/cpuinfo", cpuInfo(p))
}

// ranges prints numbers that ascend as the kernel prints a list of CPUs.
func ranges(cpus []int) string {
	var out []string
	for i := 0; i < len(cpus); {
		j := i
		for j+1 < len(cpus) && cpus[j+1] == cpus[j]+1 {
			j++
		}
		if j > i {
			out = append(out, fmt.Sprintf("%d-%d", cpus[i], cpus[j]))
		} else {
			out = append(out, strconv.Itoa(cpus[i]))
		}
		i = j + 1
	}
	return strings.Join(out, ",")
}

func maskOf(cpus []int) string {
	m := new(big.Int)
	for _, c := range cpus {
		m.SetBit(m, c, 1)
	}
	return cpuMask(m)
}

// Flags of /proc/cpuinfo, as processors of these makers and generations have them.
const (
	flagsX86 = "fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat pse36 clflush mmx fxsr sse sse2 ht syscall nx pdpe1gb rdtscp lm constant_tsc rep_good nopl nonstop_tsc cpuid aperfmperf pni pclmulqdq monitor ssse3 fma cx16 sse4_1 sse4_2 x2apic movbe popcnt aes xsave avx f16c rdrand lahf_lm abm 3dnowprefetch cat_l3 fsgsbase bmi1 avx2 smep bmi2 cqm rdt_a rdseed adx smap clflushopt clwb sha_ni xsaveopt xsavec xgetbv1 umip rdpid"
	flagsAMD = " svm extapic cr8_legacy sse4a misalignsse osvw ibs skinit wdt tce topoext perfctr_core perfctr_nb bpext mwaitx cpb hw_pstate ssbd ibrs ibpb stibp vmmcall clzero irperf xsaveerptr wbnoinvd npt lbrv svm_lock nrip_save"
	flagsInt = " acpi ss tm pbe dts arch_perfmon pebs bts xtopology dtes64 ds_cpl vmx smx est tm2 sdbg xtpr pcid dca tsc_deadline_timer cpuid_fault epb ssbd ibrs ibpb stibp ibrs_enhanced tpr_shadow vnmi flexpriority ept vpid ept_ad tsc_adjust erms invpcid intel_pt"
	flags512 = " avx512f avx512dq avx512ifma avx512cd avx512bw avx512vl avx512vbmi avx512_vbmi2 gfni vaes vpclmulqdq avx512_vnni avx512_bitalg avx512_vpopcntdq la57"
	flagsArm = "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp uscat ilrcpc flagm paca pacg"
	flagsSVE = " sha3 sm3 sm4 sha512 sve asimdfhm dit ssbs sb dcpodp sve2 sveaes svepmull svebitperm svesha3 svesm4 flagm2 frint svei8mm svebf16 i8mm bf16 dgh bti"
)

// cpuInfo is /proc/cpuinfo.
func cpuInfo(p catalog.Processors) string {
	var s strings.Builder
	m := p.Model
	flags := flagsX86
	switch {
	case m.Vendor() == "AuthenticAMD":
		flags += flagsAMD
	default:
		flags += flagsInt
	}
	if m.Name != core14900Name && m.Family != 23 {
		flags += flags512
	}
	perSocket := p.Nodes * p.Cores / p.Sockets
	siblings, cores := perSocket*p.Threads, perSocket-p.Paired
	arm := flagsArm
	if m.Family != 0xd42 {
		arm += flagsSVE
	}
	s.Grow((len(flags) + 600) * p.Count())
	head := fmt.Sprintf("vendor_id\t: %s\ncpu family\t: %d\nmodel\t\t: %d\nmodel name\t: %s\nstepping\t: %d\nmicrocode\t: 0x1\ncpu MHz\t\t: %d.000\ncache size\t: %d KB\n", m.Vendor(), m.Family, m.Model, m.Name, m.Stepping, m.MHz, m.L2)
	tail := fmt.Sprintf("fpu\t\t: yes\nfpu_exception\t: yes\ncpuid level\t: 27\nwp\t\t: yes\nflags\t\t: %s\nbugs\t\t: spectre_v1 spectre_v2\nbogomips\t: %d.00\nclflush size\t: 64\ncache_alignment\t: 64\naddress sizes\t: 48 bits physical, 48 bits virtual\npower management:\n\n", flags, 2*m.MHz)
	for cpu := range p.Count() {
		if m.Vendor() == "" {
			fmt.Fprintf(&s, "processor\t: %d\nBogoMIPS\t: 2000.00\nFeatures\t: %s\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: %#x\nCPU part\t: %#x\nCPU revision\t: %d\n\n", cpu, arm, m.Model, m.Family, m.Stepping)
			continue
		}
		core, _ := p.Core(cpu)
		fmt.Fprintf(&s, "processor\t: %d\n%sphysical id\t: %d\nsiblings\t: %d\ncore id\t\t: %d\ncpu cores\t: %d\napicid\t\t: %d\ninitial apicid\t: %d\n%s",
			cpu, head, p.Socket(cpu), siblings, core%perSocket, cores, cpu, cpu, tail)
	}
	return s.String()
}

// core14900Name is the desktop's, the one without AVX-512.
const core14900Name = "Intel(R) Core(TM) i9-14900K"

// numa makes /sys/devices/system/node; a fiftieth of each node's memory is used.
func (b *builder) numa(c *catalog.Chassis) {
	p, top := c.Processors, "/sys/devices/system/node"
	all := "0\n"
	if p.Nodes > 1 {
		all = fmt.Sprintf("0-%d\n", p.Nodes-1)
	}
	for _, name := range []string{"online", "possible", "has_cpu", "has_memory", "has_normal_memory"} {
		b.attr(top+"/"+name, all)
	}
	for n := range p.Nodes {
		at := fmt.Sprintf("%s/node%d", top, n)
		near := nearbyOf(p, n)
		b.attr(at+"/cpulist", near.list)
		b.attr(at+"/cpumap", near.mask)
		var far []string
		for o := range p.Nodes {
			switch {
			case o == n:
				far = append(far, "10")
			case o*p.Sockets/p.Nodes == n*p.Sockets/p.Nodes:
				far = append(far, "12")
			case p.Model.Name == "" && p.Sockets > 1:
				far = append(far, "40")
			case p.Model.Vendor() == "GenuineIntel":
				far = append(far, "21")
			default:
				far = append(far, "32")
			}
		}
		b.attr(at+"/distance", strings.Join(far, " ")+"\n")
		kib := c.NodeGiB << 20
		b.attr(at+"/meminfo", fmt.Sprintf("Node %[1]d MemTotal:       %[2]d kB\nNode %[1]d MemFree:        %[3]d kB\nNode %[1]d MemUsed:        %[4]d kB\n", n, kib, kib-kib/50, kib/50))
		b.attr(at+"/numastat", "numa_hit 0\nnuma_miss 0\nnuma_foreign 0\ninterleave_hit 0\nlocal_node 0\nother_node 0\n")
		b.file(at+"/uevent", "", 0o644)
	}
}

// KernelVersion is what a host's kernel says of its build, which no profile tells.
const KernelVersion = "#1 SMP PREEMPT_DYNAMIC"

// kernel makes what the kernel says of itself. Jetson's carries its configuration;
// distributions have it in /boot.
func (b *builder) kernel() {
	b.attr("/proc/version", fmt.Sprintf("Linux version %s (gpurig@localhost) (gcc) %s\n", b.m.Kernel, KernelVersion))
	text := kernelConfig(b.m.Kernel, b.m.Arch)
	if b.m.Tegra == nil {
		b.file("/boot/config-"+b.m.Kernel, text, 0o644)
		return
	}
	b.attr("/proc/config.gz", string(Gzipped(text)))
}

// Gzipped compresses text.
func Gzipped(text string) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write([]byte(text)) // to memory
	_ = w.Close()
	return out.Bytes()
}

// What programs look up in a kernel's configuration, as distributions set it.
const (
	builtIn = "MODULES SMP NUMA PCI PCI_MSI PCIEPORTBUS PCIEAER HOTPLUG_PCI PCI_IOV PCI_ATS PCI_PRI PCI_PASID IOMMU_API IOMMU_SUPPORT SYSFS PROC_FS DEVTMPFS TMPFS HUGETLBFS FUSE_FS " +
		"NAMESPACES UTS_NS IPC_NS USER_NS PID_NS NET_NS TIME_NS CGROUPS MEMCG BLK_CGROUP CGROUP_SCHED FAIR_GROUP_SCHED CFS_BANDWIDTH CGROUP_PIDS CGROUP_RDMA CGROUP_FREEZER CGROUP_HUGETLB CPUSETS CGROUP_DEVICE CGROUP_CPUACCT CGROUP_PERF CGROUP_BPF CGROUP_MISC " +
		"SECCOMP SECCOMP_FILTER KEYS BPF BPF_SYSCALL CHECKPOINT_RESTORE POSIX_MQUEUE UNIX98_PTYS NET INET IPV6 UNIX NETFILTER DRM_KMS_HELPER FB ACPI DMI EFI VFIO VFIO_VIRQFD TRANSPARENT_HUGEPAGE MMU_NOTIFIER"
	asModule = "OVERLAY_FS VETH BRIDGE MACVLAN VLAN_8021Q TUN VXLAN IP_NF_NAT IP_NF_FILTER NF_NAT NF_TABLES VFIO_PCI VFIO_IOMMU_TYPE1 VFIO_MDEV DRM DRM_NOUVEAU DRM_AMDGPU DRM_I915 DRM_AST SND_HDA_INTEL MLX5_CORE MLX5_INFINIBAND INFINIBAND INFINIBAND_USER_ACCESS KVM PACKET_DIAG UNIX_DIAG INET_DIAG NETLINK_DIAG"
)

func kernelConfig(release, arch string) string {
	var s strings.Builder
	name := map[string]string{"x86_64": "x86", "aarch64": "arm64"}[arch]
	number, _, _ := strings.Cut(release, "-")
	fmt.Fprintf(&s, "#\n# Automatically generated file; DO NOT EDIT.\n# Linux/%s %s Kernel Configuration\n#\n", name, number)
	more := map[string]string{"x86": "X86_64 64BIT AMD_IOMMU INTEL_IOMMU IRQ_REMAP X86_X2APIC KVM_GUEST", "arm64": "ARM64 64BIT ARM_SMMU ARM_SMMU_V3 OF"}[name]
	for option := range strings.SplitSeq(builtIn+" "+more, " ") {
		s.WriteString("CONFIG_" + option + "=y\n")
	}
	for option := range strings.SplitSeq(asModule, " ") {
		s.WriteString("CONFIG_" + option + "=m\n")
	}
	return s.String()
}
