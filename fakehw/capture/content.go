package capture

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gpurig/core/elf"
	"gpurig/core/host"
	"gpurig/core/ldcache"
	"gpurig/fixtures/hosts"
)

// Limits of the content that is kept of one file. NVIDIA's own texts are not
// kept at all: a fixture has what machines are, not what makers wrote.
const (
	maxKernel = 512 << 10 // of /proc and /sys
	maxConfig = 64 << 10  // of a configuration file
	maxSpace  = 256       // of PCI configuration space: serial numbers come later
)

// record adds what is at p, which has no link in its directory.
func (c *collector) record(p string, info host.Info) error {
	e := hosts.Entry{Path: p, Mode: host.UnixBits(info.Mode), UID: info.UID, GID: info.GID}
	switch mode := info.Mode; {
	case mode.IsDir():
		e.Kind = hosts.Dir
	case info.IsLink():
		target, err := c.r.Readlink(p)
		if err != nil {
			return err
		}
		e.Kind, e.Target, e.Mode = hosts.Symlink, target, 0o777
	case info.IsDevice():
		if mode&fs.ModeCharDevice == 0 {
			return errors.New("a block device, which no GPU has")
		}
		e.Kind, e.Major, e.Minor = hosts.Char, info.Num.Major, info.Num.Minor
	case mode&fs.ModeSocket != 0:
		e.Kind = hosts.Socket
	case mode&fs.ModeNamedPipe != 0:
		e.Kind = hosts.Fifo
	case mode.IsRegular():
		c.content(&e, info)
	default:
		return errors.New("neither file, folder, link nor node")
	}
	if e.Kind != hosts.Dir && e.Kind != hosts.Program {
		e.Mode &^= 0o6000 // the kernel does nothing with them there
	}
	c.entries[p] = e
	return nil
}

// content decides what of a regular file is kept.
func (c *collector) content(e *hosts.Entry, info host.Info) {
	kernel := strings.HasPrefix(e.Path, "/sys/") || strings.HasPrefix(e.Path, "/proc/")
	switch {
	case kernel:
		c.attribute(e, info)
	case path.Base(e.Path) == "ld.so.cache":
		// Filled in by caches, when it is known which libraries are kept.
		e.Kind, e.Data = hosts.Cache, []byte{}
	case keepsText(e.Path) && info.Size <= maxConfig:
		e.Kind, e.Data = hosts.Regular, c.read(e.Path)
	default:
		c.binary(e, info)
	}
}

// acts are files whose reading is not harmless, or gives nothing: BARs, the
// expansion ROM, what triggers something.
var acts = regexp.MustCompile(`^(resource[0-9]+(_wc)?|rom|remove|rescan|reset|edid)$`)

// attribute keeps what the kernel says in a file of /sys or /proc.
func (c *collector) attribute(e *hosts.Entry, info host.Info) {
	name := path.Base(e.Path)
	e.Kind, e.Data = hosts.Regular, []byte{}
	switch {
	case acts.MatchString(name):
		if info.Size > 0 && info.Mode.Perm()&0o444 != 0 {
			e.Kind, e.Data, e.Size = hosts.Bytes, nil, info.Size
		}
		return
	case info.Mode.Perm()&0o444 == 0:
		return // for writing only
	}
	data := c.read(e.Path)
	if filter := filters[e.Path]; filter != nil {
		data = filter(c, data)
	}
	switch {
	case name == "config" && len(data) > maxSpace:
		data = data[:maxSpace]
	case name == "properties" && strings.Contains(e.Path, "/kfd/"):
		data = uniqueID.ReplaceAll(data, []byte("unique_id 0"))
	}
	if len(data) > maxKernel {
		c.notes.add("cut to %d bytes: %s", maxKernel, e.Path)
		data = data[:maxKernel]
	}
	e.Data = data
}

var uniqueID = regexp.MustCompile(`(?m)^unique_id [0-9]+$`)

// read returns a file's content, and notes why there is none.
func (c *collector) read(p string) []byte {
	data, err := c.r.ReadFile(p)
	if err != nil {
		c.notes.unread(p, err)
	}
	if data == nil {
		data = []byte{}
	}
	return data
}

// keepsText reports whether a file of the file system is configuration, which
// programs that set up containers read.
func keepsText(p string) bool {
	switch path.Ext(p) {
	case ".json", ".icd", ".conf", ".csv", ".toml", ".yaml", ".yml":
		return true
	}
	return slices.Contains([]string{"os-release", "nv_tegra_release"}, path.Base(p))
}

// An opener opens regular files for reading at offsets: libraries are too large
// to be read as a whole.
type opener interface {
	Open(p string) (*os.File, error)
}

// binary keeps what kind of file it is, and its size.
func (c *collector) binary(e *hosts.Entry, info host.Info) {
	e.Kind, e.Size = hosts.Bytes, info.Size
	f, err := c.elf(e.Path, info.Size)
	switch {
	case errors.Is(err, elf.ErrNotELF):
	case err != nil:
		c.notes.unread(e.Path, err)
	case f.Type == elf.SharedObject && f.Interp == "" && (f.SONAME != "" || strings.Contains(path.Base(e.Path), ".so")):
		e.Kind, e.SONAME = hosts.Library, f.SONAME
	case f.Type == elf.SharedObject || f.Type == elf.Executable:
		e.Kind = hosts.Program
	}
}

func (c *collector) elf(p string, size int64) (elf.File, error) {
	o, ok := c.r.(opener)
	if !ok {
		data, err := c.r.ReadFile(p)
		if err != nil {
			return elf.File{}, err
		}
		return elf.Parse(data)
	}
	f, err := o.Open(p)
	if err != nil {
		return elf.File{}, err
	}
	defer f.Close()
	return elf.Read(f, size)
}

// caches keeps of each loader cache the entries whose files are recorded.
func (c *collector) caches() {
	for p, e := range c.entries {
		if e.Kind != hosts.Cache {
			continue
		}
		cache, err := ldcache.Parse(c.read(p))
		if err != nil {
			c.notes.add("not read: %s: %v", p, err)
			delete(c.entries, p)
			continue
		}
		root := strings.TrimSuffix(p, "/etc/ld.so.cache")
		cache.Entries = slices.DeleteFunc(cache.Entries, func(x ldcache.Entry) bool { return !c.has(root + x.Path) })
		e.Data = cacheText(cache)
		c.entries[p] = e
	}
}

// has reports whether p was recorded, be it a link that leads nowhere.
func (c *collector) has(p string) bool {
	real, err := host.ResolveDir(c.r, p)
	_, ok := c.entries[real]
	return err == nil && ok
}

// cacheText writes a loader cache as text: who made it, then SONAME, flags and
// path of each entry, and what else is not zero.
func cacheText(cache ldcache.Cache) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n", cache.Generator)
	for _, e := range cache.Entries {
		fmt.Fprintf(&b, "%s %#x %s", e.SONAME, e.Flags, e.Path)
		if e.OSVersion != 0 || e.HWCap != 0 || e.HWCaps != "" || e.ISALevel != 0 {
			fmt.Fprintf(&b, " %#x %#x %s %d", e.OSVersion, e.HWCap, dash(e.HWCaps), e.ISALevel)
		}
		b.WriteByte('\n')
	}
	return b.Bytes()
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// parseCache reads the text of cacheText.
func parseCache(text []byte) (ldcache.Cache, error) {
	var out ldcache.Cache
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimSuffix(line, "\n")
		if number == 1 {
			generator, ok := strings.CutPrefix(line, "# ")
			if !ok {
				return out, errors.New("line 1: want the program that made the cache, after \"# \"")
			}
			out.Generator = generator
			continue
		}
		words := strings.Split(line, " ")
		if len(words) != 3 && len(words) != 7 {
			return out, fmt.Errorf("line %d: want SONAME FLAGS PATH", number)
		}
		var errs []error
		n := func(s string, bits int) uint64 {
			v, err := strconv.ParseUint(s, 0, bits)
			errs = append(errs, err)
			return v
		}
		e := ldcache.Entry{SONAME: words[0], Flags: int32(n(words[1], 31)), Path: words[2]}
		if len(words) == 7 {
			e.OSVersion, e.HWCap, e.ISALevel = uint32(n(words[3], 32)), n(words[4], 64), uint32(n(words[6], 32))
			if words[5] != "-" {
				e.HWCaps = words[5]
			}
		}
		if err := errors.Join(errs...); err != nil {
			return out, fmt.Errorf("line %d: %w", number, err)
		}
		if !ldcache.ValidPath(e.Path) {
			return out, fmt.Errorf("line %d: %q is no path", number, e.Path)
		}
		out.Entries = append(out.Entries, e)
	}
	return out, nil
}
