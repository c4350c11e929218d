package fakehw

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpurig/core/memo"
	"gpurig/fakehw/tree"
)

// kmods keeps the folders of modules.
var kmods = memo.Map[string, *tree.Tree]{Limit: 16}

// inTree are modules that kernels of distributions have, by their folder below
// kernel/, with what they stand on.
var inTree = map[string][]string{
	"drivers/vfio/vfio":                                 {},
	"drivers/vfio/vfio_iommu_type1":                     {"vfio"},
	"drivers/vfio/pci/vfio-pci-core":                    {"vfio"},
	"drivers/vfio/pci/vfio-pci":                         {"vfio-pci-core", "vfio"},
	"drivers/vfio/mdev/mdev":                            {},
	"drivers/gpu/drm/nouveau/nouveau":                   {},
	"drivers/gpu/drm/amd/amdgpu/amdgpu":                 {},
	"drivers/gpu/drm/i915/i915":                         {},
	"drivers/gpu/drm/xe/xe":                             {},
	"drivers/gpu/drm/ast/ast":                           {},
	"sound/pci/hda/snd-hda-intel":                       {},
	"drivers/net/ethernet/mellanox/mlx5/core/mlx5_core": {},
	"drivers/infiniband/core/ib_core":                   {},
	"drivers/infiniband/core/ib_uverbs":                 {"ib_core"},
	"drivers/infiniband/core/rdma_cm":                   {"ib_core"},
	"drivers/infiniband/core/rdma_ucm":                  {"rdma_cm", "ib_uverbs", "ib_core"},
	"drivers/infiniband/hw/mlx5/mlx5_ib":                {"ib_uverbs", "mlx5_core", "ib_core"},
	"fs/overlayfs/overlay":                              {},
	"drivers/net/veth":                                  {},
	"net/bridge/bridge":                                 {},
}

// compiledIn are modules that are part of such kernels.
var compiledIn = []string{"kernel/drivers/pci/hotplug/acpiphp.ko", "kernel/drivers/tty/serial/8250/8250.ko", "kernel/drivers/block/loop.ko", "kernel/drivers/net/tun.ko", "kernel/fs/fuse/fuse.ko", "kernel/security/keys/encrypted-keys/encrypted-keys.ko"}

// A kmod is a module in /lib/modules.
type kmod struct {
	file    string // below the folder
	needs   []string
	version string
	license string
	aliases []string
}

// installedModules makes /lib/modules/RELEASE as depmod leaves it, with modules that say
// what modinfo asks for and have no code.
func (b *builder) installedModules() {
	top := "/lib/modules/"
	if b.m.OS.MergedUsr {
		top = "/usr/lib/modules/"
	}
	version, open := b.installed()
	key := fmt.Sprint(top, b.m.Kernel, b.m.Arch, version, open, b.m.Tegra != nil)
	t, err := kmods.Get(context.Background(), key, func() (*tree.Tree, error) {
		in := &builder{t: tree.New(), m: b.m}
		in.depmod(top+b.m.Kernel, in.kmods(version, open))
		return in.t.Freeze(), in.err
	})
	b.do(err)
	if err == nil {
		b.t.Share(t)
	}
}

// installed says which version of NVIDIA's modules is on disk, which is that of its
// libraries, and whether they are the open ones; empty: there are none. Of a driver that
// is not loaded it is not known, and it is not then.
func (b *builder) installed() (version string, open bool) {
	if d := b.m.Driver; d != nil {
		version, open = d.Version, d.Open
	}
	if u := b.m.Userspace; u != nil {
		version = u.Version
	}
	return version, open
}

func (b *builder) kmods(version string, open bool) []kmod {
	var out []kmod
	for file, needs := range inTree {
		out = append(out, kmod{file: "kernel/" + file + ".ko", needs: needs, license: "GPL"})
	}
	if version != "" {
		license := "NVIDIA"
		if open {
			license = "Dual MIT/GPL"
		}
		for name, needs := range map[string][]string{"nvidia": nil, "nvidia-uvm": {"nvidia"}, "nvidia-modeset": {"nvidia"}, "nvidia-drm": {"nvidia-modeset", "nvidia"}, "nvidia-peermem": {"nvidia"}} {
			k := kmod{file: "updates/dkms/" + name + ".ko", needs: needs, license: license, version: version}
			if name == "nvidia" {
				k.aliases = []string{"pci:v000010DEd*sv*sd*bc03sc00i00*", "pci:v000010DEd*sv*sd*bc03sc02i00*", "pci:v000010DEd*sv*sd*bc06sc80i00*", "char-major-195-*"}
			}
			out = append(out, k)
		}
		if b.m.Tegra != nil {
			out = append(out, kmod{file: "updates/nvgpu.ko", license: "GPL v2", aliases: []string{"of:N*T*Cnvidia,ga10b"}})
		}
	}
	slices.SortFunc(out, func(x, y kmod) int { return strings.Compare(x.file, y.file) })
	return out
}

// moduleName is how the kernel spells a module's name.
func moduleName(file string) string {
	return strings.ReplaceAll(strings.TrimSuffix(file[strings.LastIndexByte(file, '/')+1:], ".ko"), "-", "_")
}

// depmod writes modules and the lists of them.
func (b *builder) depmod(at string, all []kmod) {
	paths := map[string]string{}
	for _, k := range all {
		paths[moduleName(k.file)] = k.file
	}
	var deps, aliases, order strings.Builder
	var depIndex, aliasIndex, builtin, none trie
	for _, k := range all {
		name := moduleName(k.file)
		line := k.file + ":"
		for _, n := range k.needs {
			line += " " + paths[moduleName(n)]
		}
		deps.WriteString(line + "\n")
		depIndex.put(name, line)
		order.WriteString(k.file + "\n")
		for _, a := range k.aliases {
			fmt.Fprintf(&aliases, "alias %s %s\n", a, name)
			aliasIndex.put(strings.ReplaceAll(a, "-", "_"), name)
		}
		b.data(at+"/"+k.file, k.object(b.m.Kernel, b.m.Arch), 0o644)
	}
	for _, file := range compiledIn {
		builtin.put(moduleName(file), "")
	}
	for name, text := range map[string]string{
		"modules.dep": deps.String(), "modules.dep.bin": depIndex.index(), "modules.alias": "# Aliases extracted from modules themselves.\n" + aliases.String(), "modules.alias.bin": aliasIndex.index(),
		"modules.symbols": "# Aliases for symbols, used by symbol_request().\n", "modules.symbols.bin": none.index(), "modules.softdep": "# Soft dependencies extracted from modules themselves.\n",
		"modules.devname": "# Device nodes to trigger on-demand module loading.\n", "modules.order": order.String(),
		"modules.builtin": strings.Join(compiledIn, "\n") + "\n", "modules.builtin.bin": builtin.index(), "modules.builtin.alias.bin": none.index(), "modules.builtin.modinfo": "",
	} {
		b.file(at+"/"+name, text, 0o644)
	}
}

// object is an ELF file that has what modinfo prints, and no code.
func (k kmod) object(release, arch string) []byte {
	name := moduleName(k.file)
	words := []string{"license=" + k.license, "name=" + name, "vermagic=" + release + " SMP preempt mod_unload modversions ", "depends=" + strings.ReplaceAll(strings.Join(k.needs, ","), "-", "_"), "retpoline=Y"}
	if k.version != "" {
		words = append([]string{"version=" + k.version}, words...)
	} else {
		words = append(words, "intree=Y")
	}
	for _, a := range k.aliases {
		words = append(words, "alias="+a)
	}
	info := strings.Join(words, "\x00") + "\x00"
	const names = "\x00.modinfo\x00.shstrtab\x00"
	h := elf.Header64{Type: uint16(elf.ET_REL), Machine: uint16(map[string]elf.Machine{"x86_64": elf.EM_X86_64, "aarch64": elf.EM_AARCH64}[arch]), Version: 1,
		Ehsize: 64, Shentsize: 64, Shnum: 3, Shstrndx: 2}
	copy(h.Ident[:], "\x7fELF\x02\x01\x01")
	h.Shoff = uint64(64+len(info)+len(names)+7) &^ 7
	var out bytes.Buffer
	put := func(v any) { _ = binary.Write(&out, binary.LittleEndian, v) } // to memory
	put(h)
	out.WriteString(info + names)
	out.Write(make([]byte, int(h.Shoff)-out.Len()))
	put(elf.Section64{})
	put(elf.Section64{Name: 1, Type: uint32(elf.SHT_PROGBITS), Flags: uint64(elf.SHF_ALLOC), Off: 64, Size: uint64(len(info)), Addralign: 1})
	put(elf.Section64{Name: 10, Type: uint32(elf.SHT_STRTAB), Off: uint64(64 + len(info)), Size: uint64(len(names)), Addralign: 1})
	return out.Bytes()
}

// A trie is an index of modules as libkmod reads it (libkmod/libkmod-index.h: numbers
// are big-endian, a node tells in its address what it has).
type trie struct {
	values   []string
	children map[byte]*trie
}

const (
	indexMagic   = 0xb007f457
	indexVersion = 0x00020001
	nodeValues   = 0x40000000
	nodeChildren = 0x20000000
)

func (t *trie) put(key, value string) {
	for _, c := range []byte(key) {
		if t.children == nil {
			t.children = map[byte]*trie{}
		}
		if t.children[c] == nil {
			t.children[c] = &trie{}
		}
		t = t.children[c]
	}
	t.values = append(t.values, value)
}

// index is the file.
func (t *trie) index() string {
	out := make([]byte, 12)
	root := t.write(&out)
	binary.BigEndian.PutUint32(out, indexMagic)
	binary.BigEndian.PutUint32(out[4:], indexVersion)
	binary.BigEndian.PutUint32(out[8:], root)
	return string(out)
}

// write appends a node, those below it first, and returns its address.
func (t *trie) write(out *[]byte) uint32 {
	var at map[byte]uint32
	keys := slices.Sorted(maps.Keys(t.children))
	if len(keys) > 0 {
		at = map[byte]uint32{}
		for _, c := range keys {
			at[c] = t.children[c].write(out)
		}
	}
	here := uint32(len(*out))
	if len(keys) > 0 {
		first, last := keys[0], keys[len(keys)-1]
		*out = append(*out, first, last)
		for c := int(first); c <= int(last); c++ {
			*out = binary.BigEndian.AppendUint32(*out, at[byte(c)])
		}
		here |= nodeChildren
	}
	if len(t.values) > 0 {
		*out = binary.BigEndian.AppendUint32(*out, uint32(len(t.values)))
		for i, v := range t.values {
			*out = binary.BigEndian.AppendUint32(*out, uint32(i))
			*out = append(append(*out, v...), 0)
		}
		here |= nodeValues
	}
	return here
}
