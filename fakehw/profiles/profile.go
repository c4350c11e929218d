// Package profiles has whole hosts as short YAML files, and reads such files.
//
// A profile names products, a driver version, an operating system and what is
// special about the host; Model expands it to the flat host.Model in which
// nothing is left to a default. What a file may say is in profile.schema.json,
// for editors and people. Making a tree of the model is package fakehw's job.
package profiles

import (
	"embed"
	_ "embed"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/fakehw"
	"gpurig/fakehw/fault"
)

//go:embed data/*.yaml
var shipped embed.FS

// Schema is the JSON Schema of a profile file.
//
//go:embed profile.schema.json
var Schema []byte

// Limits of a profile, so that a typing error cannot ask for the world.
const (
	maxFile    = 1 << 20
	maxText    = 4096
	maxGPUs    = 64
	maxIMEX    = 2048
	maxRDMA    = 32 // IB_UVERBS_MAX_DEVICES of the fixed major
	maxEntries = 1024
	maxFaults  = 64
)

// A Profile is one profile file, checked. Its fields say what the file says; they
// are for reading.
type Profile struct {
	Name        string // file name without ".yaml"
	Description string // the first comment
	Arch        string
	Kernel      string
	Cmdline     string
	OS          OS
	IOMMU       bool
	Driver      *Driver
	Drivers     []string // of PCI functions, loaded beside and without use
	Userspace   Userspace
	GPUs        []GPU
	NVSwitches  []GPU // product, addresses, NUMA nodes and groups only
	IMEX        int
	GPUDirect   fakehw.GPUDirect
	Tegra       *Tegra
	Majors      map[string]uint32
	Nodes       []device.Node
	Without     []string   // nodes that are not there
	Faults      fault.List // what is broken; Model is the host without them

	model *host.Model // what all of it makes
}

// An OS is the distribution.
type OS struct {
	ID        string
	Version   string
	MergedUsr *bool // nil: as the distribution has it
}

// A Driver is NVIDIA's kernel driver.
type Driver struct {
	Version string // or a branch
	Open    bool
	Modules []string
	VGPU    string // host.VGPUMDev, host.VGPUVendor; empty: it makes no vGPUs
}

// A Userspace is where and how NVIDIA's libraries are installed.
type Userspace struct {
	None       bool   // nothing is installed
	Version    string // empty: the kernel driver's
	Root       string
	LibDir     string
	StorePath  string
	Persist    bool
	FabricMgr  bool
	MPS        bool
	Explicitly bool // the file has a userspace section
}

// A GPU is one product at one or more addresses. Lists have one entry for each
// address, or are empty.
type GPU struct {
	Product    string
	At         []pci.BDF
	NUMA       []int
	Groups     []int
	Minors     []int
	Indexes    []int
	Cards      []int
	Renders    []int
	UUIDs      []string
	Driver     string   // empty: the product's own
	MIG        []string // geometry of each of them
	MIGEnabled bool
}

// A Tegra is the SoC.
type Tegra struct {
	Board    string
	Release  string
	Revision string
	CSV      []string
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

// Load reads a shipped profile by name, or a file if name has a slash or ends
// in ".yaml". The error lists every mistake, each a *Problem, and the model can
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
		return Profile{}, fmt.Errorf("profile %q: %w; known: %s", name, os.ErrNotExist, strings.Join(Names(), ", "))
	}
	return Parse(name+".yaml", data)
}

// readFile reads a regular file of at most maxFile bytes.
func readFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("not a regular file: %w", ErrInvalid)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("more than %d bytes: %w", maxFile, ErrInvalid)
	}
	return data, nil
}

// Parse reads a profile. File is for messages and gives the name.
func Parse(file string, data []byte) (Profile, error) {
	if len(data) > maxFile {
		return Profile{}, &Problem{File: file, Why: fmt.Sprintf("more than %d bytes", maxFile)}
	}
	r := &reader{file: file, places: map[string]place{}}
	p := Profile{Name: strings.TrimSuffix(strings.TrimSuffix(path.Base(file), ".yaml"), ".yml"), Description: firstComment(data)}
	if n := r.document(data); n != nil {
		p.read(r, n)
	}
	if len(r.problems) == 0 {
		p.check(r)
	}
	if len(r.problems) == 0 {
		m, err := p.expand(r.failAt)
		if err == nil && len(r.problems) == 0 {
			if _, err = fault.Break(m, p.Faults); err != nil {
				r.failAt("faults", err)
			}
		}
		if err != nil && len(r.problems) == 0 {
			r.failAt("", err)
		}
		p.model = &m
	}
	if err := join(r.problems); err != nil {
		return Profile{}, err
	}
	return p, nil
}

// firstComment returns the comment at the head of a file, on one line.
func firstComment(data []byte) string {
	var words []string
	for line := range strings.Lines(string(data)) {
		text, ok := strings.CutPrefix(strings.TrimSpace(line), "#")
		if !ok {
			break
		}
		words = append(words, strings.TrimSpace(text))
	}
	return strings.TrimSpace(strings.Join(words, " "))
}
