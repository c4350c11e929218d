package profiles

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"gpurig/core/device"
	"gpurig/core/strictdoc"
	"gpurig/fakehw/fault"
)

// A file is a profile as it is written, where that is not as a Profile has it.
type file struct {
	Profile
	NVSwitches *Slots   `yaml:"nvswitches"`
	Nodes      []node   `yaml:"nodes"`
	Faults     []string `yaml:"faults" max:"64"`
}

// A node is one of nodes.
type node struct {
	Path   string     `yaml:"path"`
	Number device.Num `yaml:"number"`
	Type   string     `yaml:"type" words:"c b"`
	Mode   string     `yaml:"mode"`
	UID    uint32     `yaml:"uid" range:"0..2147483647"`
	GID    uint32     `yaml:"gid" range:"0..2147483647"`
}

// form is how a profile file is written.
var form = strictdoc.New[file](strictdoc.Options{What: "profile", Bytes: MaxFile, Entries: 1024, Text: 4096})

// A reader has the file that a profile comes from.
type reader struct{ *strictdoc.Doc }

// failAt notes a mistake at a path, "gpus[0].product", and says the path.
func (r reader) failAt(path string, err error) {
	if path == "" {
		r.At("", "", "%w", err)
		return
	}
	r.At(strictdoc.Path(path), "", "%s: %w", path, err)
}

// fill takes what a file says into its profile, and checks each value by itself.
func (f *file) fill(r reader) {
	p := &f.Profile
	if f.NVSwitches != nil {
		p.NVSwitches = []GPU{{Slots: *f.NVSwitches}}
	}
	for i := range p.GPUs {
		p.GPUs[i].MIGEnabled = p.GPUs[i].MIG != nil
	}
	r.path("userspace.root", p.Userspace.Root, "/")
	r.path("userspace.libdir", p.Userspace.LibDir, "/")
	r.path("userspace.store-path", p.Userspace.StorePath, "/")
	for i, w := range p.Without {
		r.path(fmt.Sprintf("without[%d]", i), w, "/dev/")
	}
	if p.Tegra != nil {
		for i, name := range p.Tegra.CSV {
			if strings.Contains(name, "/") || !strings.HasSuffix(name, ".csv") {
				r.failAt(fmt.Sprintf("tegra.csv[%d]", i), fmt.Errorf("%q is not the name of a CSV file", name))
			}
		}
	}
	for i, n := range f.Nodes {
		p.Nodes = append(p.Nodes, n.fill(r, fmt.Sprintf("nodes[%d]", i)))
	}
	for i, text := range f.Faults {
		with, err := fault.Parse(text)
		if err == nil {
			var all fault.List
			if all, err = p.Faults.With(with); err == nil {
				p.Faults = all
			}
		}
		if err != nil {
			r.failAt(fmt.Sprintf("faults[%d]", i), err)
		}
	}
}

func (n node) fill(r reader, at string) device.Node {
	out := device.Node{Path: n.Path, Type: device.Char, Num: n.Number, Mode: 0o660, UID: n.UID, GID: n.GID}
	for _, key := range []string{"path", "number"} {
		if !r.Has(strictdoc.Path(at).Key(key)) {
			r.failAt(at, fmt.Errorf("a node needs a %s", key))
		}
	}
	r.path(at+".path", n.Path, "/dev/")
	if r.Has(strictdoc.Path(at+".number")) && !n.Number.Known() {
		r.failAt(at+".number", fmt.Errorf("device number %q: the major is at least 1", n.Number))
	}
	if n.Type != "" {
		out.Type = device.Type(n.Type)
	}
	if r.Has(strictdoc.Path(at + ".mode")) {
		v, err := strconv.ParseUint(n.Mode, 8, 32)
		if err != nil || v > 0o777 || len(n.Mode) != 4 {
			r.failAt(at+".mode", fmt.Errorf("%q; want four octal digits in quotes, \"0660\"", n.Mode))
		}
		out.Mode = fs.FileMode(v)
	}
	return out
}

// path checks that a path that was given is clean and lies below prefix.
func (r reader) path(at, s, prefix string) {
	if r.Has(strictdoc.Path(at)) && (!path.IsAbs(s) || path.Clean(s) != s || !strings.HasPrefix(s, prefix) || s == prefix) {
		r.failAt(at, fmt.Errorf("%q; want a clean path below %s", s, prefix))
	}
}
