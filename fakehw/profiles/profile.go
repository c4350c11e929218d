// Package profiles has whole hosts as short YAML files, and reads such files.
//
// A profile names products, a driver version, an operating system and what is
// special about the host; Model expands it to a host.Model without defaults.
// The schema is profile.schema.json, for editors and people. Package fakehw makes
// a tree of the model.
package profiles

import (
	"embed"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/core/strictdoc"
	"gpurig/fakehw"
	"gpurig/fakehw/fault"
)

//go:embed data/*.yaml
var shipped embed.FS

// Schema is the JSON Schema of a profile file.
//
//go:embed profile.schema.json
var Schema []byte

// Limits of a profile, so that a typing error cannot ask for the world; more of
// them are in the tags below.
const (
	MaxFile = 1 << 20
	maxGPUs = 64
)

// A Profile is one profile file, checked. Its fields say what the file says; they
// are for reading.
type Profile struct {
	Name        string // file name without ".yaml"
	Description string // the first comment

	Arch       string             `yaml:"arch" words:"x86_64 aarch64"`
	Kernel     string             `yaml:"kernel"`
	Cmdline    string             `yaml:"cmdline"`
	OS         OS                 `yaml:"os"`
	IOMMU      bool               `yaml:"iommu"`
	Driver     *Driver            `yaml:"driver"`
	Drivers    []string           `yaml:"drivers,single" max:"16"` // of PCI functions, loaded beside and without use
	Userspace  Userspace          `yaml:"userspace"`
	Products   map[string]Product `yaml:"products" max:"16"` // of GPUs, which the catalogue does not have
	GPUs       []GPU              `yaml:"gpus" max:"64"`
	NVSwitches []GPU              // product, addresses, NUMA nodes and groups only
	IMEX       int                `yaml:"imex-channels" range:"0..2048"`
	GPUDirect  fakehw.GPUDirect   `yaml:"gpudirect"`
	Tegra      *Tegra             `yaml:"tegra"`
	Majors     map[string]uint32  `yaml:"majors" range:"1..511"`
	Nodes      []device.Node
	Without    []string   `yaml:"without"` // nodes that are not there
	Faults     fault.List // what is broken; Model is the host without them

	model *host.Model // what all of it makes
}

// An OS is the distribution.
type OS struct {
	ID        string `yaml:"id"`
	Version   string `yaml:"version"`
	MergedUsr *bool  `yaml:"merged-usr"` // nil: as the distribution has it
}

// A Driver is NVIDIA's kernel driver.
type Driver struct {
	Version string   `yaml:"version"` // or a branch
	Open    bool     `yaml:"open"`
	Modules []string `yaml:"modules,single" max:"16"`
	VGPU    string   `yaml:"vgpu" words:"mdev vendor"` // host.VGPUMDev, host.VGPUVendor; empty: it makes no vGPUs
}

// A Userspace is where and how NVIDIA's libraries are installed.
type Userspace struct {
	Installed *bool  `yaml:"installed"` // nil: where there is a driver
	Version   string `yaml:"version"`   // empty: the kernel driver's
	Root      string `yaml:"root"`
	LibDir    string `yaml:"libdir"`
	StorePath string `yaml:"store-path"`
	Persist   bool   `yaml:"persistenced"`
	FabricMgr bool   `yaml:"fabric-manager"`
	MPS       bool   `yaml:"mps"`
}

// none reports whether nothing is installed.
func (u Userspace) none() bool { return u.Installed != nil && !*u.Installed }

// Slots are one product at one or more PCI addresses. Lists have one entry for
// each address, or are empty.
type Slots struct {
	Product string    `yaml:"product"`
	At      []pci.BDF `yaml:"at,single" max:"64"`
	NUMA    []int     `yaml:"numa,single" range:"-1..63" max:"64"`
	Groups  []int     `yaml:"iommu-group,single" range:"0..4095" max:"64"`
}

// A GPU is one product at one or more addresses.
type GPU struct {
	Slots
	Minors     []int    `yaml:"minor,single" range:"0..247" max:"64"`
	Indexes    []int    `yaml:"index,single" range:"0..63" max:"64"`
	Cards      []int    `yaml:"card,single" range:"0..63" max:"64"`
	Renders    []int    `yaml:"render,single" range:"128..191" max:"64"`
	UUIDs      []string `yaml:"uuid,single" max:"64"`
	Driver     string   `yaml:"driver" words:"none vfio-pci nouveau"`      // empty: the product's own
	MIG        []string `yaml:"mig,single" max:"16"`                       // geometry of each of them
	Partitions string   `yaml:"compute-partition" words:"SPX DPX QPX CPX"` // amdgpu's mode of each of them; empty: SPX
	MIGEnabled bool
}

// A Tegra is the SoC.
type Tegra struct {
	Board    string   `yaml:"board"`
	Release  string   `yaml:"release" words:"R35 R36 R38 R39"`
	Revision string   `yaml:"revision"`
	CSV      []string `yaml:"csv,single" max:"16"`
}

// Is reports whether a YAML file is meant as a profile, whatever is wrong in it: it has
// GPUs, a kernel or a system of its own, and no containers.
func Is(data []byte) bool {
	n, fault := strictdoc.Parse(data, false)
	if fault != nil || n == nil {
		return false
	}
	has := func(keys ...string) bool {
		return slices.ContainsFunc(n.Members, func(m strictdoc.Member) bool { return slices.Contains(keys, m.Key) })
	}
	return has("gpus", "kernel", "os", "tegra") && !has("containers", "expect", "steps", "host")
}

// Names returns the names of the profiles that are shipped, sorted.
func Names() []string {
	entries, err := shipped.ReadDir("data")
	if err != nil {
		return nil // cannot be: the folder is compiled in
	}
	var out []string
	for _, e := range entries {
		out = append(out, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	slices.Sort(out)
	return out
}

// ErrUnknown says that no profile of a name is shipped. It is an os.ErrNotExist.
var ErrUnknown error = unknown{}

type unknown struct{}

func (unknown) Error() string { return "none of that name is shipped" }
func (unknown) Unwrap() error { return os.ErrNotExist }

// Load reads a shipped profile by name, or a file if name has a slash or ends
// in ".yaml". The error lists every mistake, each a *strictdoc.Problem, and the model can
// be made of a profile that was loaded without one.
func Load(name string) (Profile, error) {
	if strings.Contains(name, "/") || strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml") {
		data, err := readFile(name)
		if err != nil {
			return Profile{}, fmt.Errorf("profile %s: %w", name, err)
		}
		return Parse(name, data)
	}
	data, err := shipped.ReadFile("data/" + name + ".yaml")
	if err != nil {
		return Profile{}, fmt.Errorf("profile %q: %w%s", name, ErrUnknown, strictdoc.Meant(name, Names()))
	}
	return Parse(name+".yaml", data)
}

// readFile reads a regular file of at most MaxFile bytes.
func readFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > MaxFile {
		return nil, fmt.Errorf("more than %d bytes", MaxFile)
	}
	return data, nil
}

// Parse reads a profile. Name is the file's, for messages, and gives the
// profile's.
func Parse(name string, data []byte) (Profile, error) {
	var f file
	d, ok := form.Read(name, data, &f)
	r, p := reader{d}, &f.Profile
	p.Name, p.Description = strings.TrimSuffix(strings.TrimSuffix(path.Base(name), ".yaml"), ".yml"), firstComment(data)
	if ok {
		f.fill(r)
	}
	if d.Err() == nil {
		p.check(r)
	}
	if d.Err() == nil {
		m, err := p.expand(r.failAt)
		if err == nil && d.Err() == nil {
			if _, err = fault.Break(m, p.Faults); err != nil {
				r.failAt("faults", err)
			}
		}
		if err != nil && d.Err() == nil {
			r.failAt("", err)
		}
		p.model = &m
	}
	if err := d.Err(); err != nil {
		return Profile{}, err
	}
	return *p, nil
}

// firstComment returns the comment at the head of a file, on one line.
func firstComment(data []byte) string {
	var words []string
	for line := range strings.Lines(string(data)) {
		text, ok := strings.CutPrefix(strings.TrimSpace(line), "#")
		if !ok {
			break
		}
		if strings.HasPrefix(strings.TrimSpace(text), "yaml-language-server:") || strings.HasPrefix(strings.TrimSpace(text), "$schema:") {
			continue // for an editor
		}
		words = append(words, strings.TrimSpace(text))
	}
	return strings.TrimSpace(strings.Join(words, " "))
}
