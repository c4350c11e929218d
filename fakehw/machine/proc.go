package machine

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/fakehw"
	"gpurig/fakehw/live"
	"gpurig/fakehw/tree"
)

// procFiles are the files of /proc that are the machine's and the host's at
// once, each made when it is read. Those that the machine itself lacks are left
// out: nothing can be added to /proc.
func procFiles(h *live.Host) map[string]func() []byte {
	fake := func(p string) string {
		h.Locker().Lock()
		defer h.Locker().Unlock()
		text, err := h.Tree().ReadFile(p)
		if err != nil {
			return "" // the host has none
		}
		return string(text)
	}
	out := map[string]func() []byte{}
	for p, merge := range map[string]func(real, fake string) string{
		"/proc/cmdline":   either,
		"/proc/config.gz": config(h),
		"/proc/cpuinfo":   either,
		"/proc/devices":   devices,
		"/proc/misc":      misc,
		"/proc/modules":   modules,
		// A host whose kernel is older has none. It is the machine's that is seen
		// then, and must not tell of another architecture.
		"/proc/sys/kernel/arch":      func(_, _ string) string { return h.Model().Arch + "\n" },
		"/proc/sys/kernel/osrelease": either,
		"/proc/sys/kernel/version":   func(_, _ string) string { return fakehw.KernelVersion + "\n" },
		"/proc/version":              either,
	} {
		if _, err := os.Stat(p); err == nil {
			out[p] = func() []byte {
				real, err := os.ReadFile(p)
				if err != nil {
					real = nil
				}
				return []byte(merge(string(real), fake(p)))
			}
		}
	}
	return out
}

// lacking lists what the host has in /proc, with something in it, and the machine's
// kernel has not: files of a kernel without modules, the link of a device tree.
func lacking(h *live.Host) []string {
	h.Locker().Lock()
	defer h.Locker().Unlock()
	var out []string
	_ = h.Tree().Walk(func(p string, e *tree.Entry) error { // fails only if we do
		switch {
		case strings.HasPrefix("/proc/sys/kernel", p):
			return nil
		case e.Mode.IsDir() && (!strings.HasPrefix(p, "/proc/") || p == "/proc/driver"):
			return fs.SkipDir
		case !strings.HasPrefix(p, "/proc/") || len(e.Data) == 0 && !e.IsLink():
			return nil
		case p == "/proc/modules":
			// A kernel without modules has none for any program on it, whatever machine
			// is played: doctor says so, once. The host's are in /sys/module.
			return nil
		}
		if _, err := os.Lstat(p); err != nil {
			out = append(out, p)
		}
		return nil
	})
	slices.Sort(out)
	return out
}

// config is the configuration of the host's kernel where a machine's kernel carries its
// own: the host's carries it too, or has it in /boot.
func config(h *live.Host) func(real, fake string) string {
	return func(real, fake string) string {
		release := h.Model().Kernel
		if fake != "" {
			return fake
		}
		h.Locker().Lock()
		defer h.Locker().Unlock()
		text, err := h.Tree().ReadFile("/boot/config-" + release)
		if err != nil {
			return real // a recording has none
		}
		return string(fakehw.Gzipped(string(text)))
	}
}

// either is the host's text, the machine's where it has none.
func either(real, fake string) string {
	if strings.TrimSpace(fake) == "" {
		return real
	}
	return fake
}

// devices merges /proc/devices: the machine's lines but those of GPU drivers and
// of numbers that the host gives to one, and the host's.
func devices(real, fake string) string {
	ours, err := host.ParseProcDevices(fake)
	if err != nil {
		return real
	}
	theirs, err := host.ParseProcDevices(real)
	if err != nil {
		return fake
	}
	type number struct {
		major uint32
		kind  device.Type
	}
	held := map[number]bool{}
	for _, x := range ours {
		if gpuMajor(x.Name) || x.Major >= 234 {
			held[number{x.Major, x.Type}] = true
		}
	}
	all := slices.Clone(ours)
	for _, x := range theirs {
		if !gpuMajor(x.Name) && !held[number{x.Major, x.Type}] && !slices.Contains(all, x) {
			all = append(all, x)
		}
	}
	slices.SortStableFunc(all, func(a, b host.Major) int { return int(a.Major) - int(b.Major) })
	var s strings.Builder
	for _, part := range []struct {
		title string
		kind  device.Type
	}{{"Character devices:\n", device.Char}, {"\nBlock devices:\n", device.Block}} {
		s.WriteString(part.title)
		for _, x := range all {
			if x.Type == part.kind {
				fmt.Fprintf(&s, "%3d %s\n", x.Major, x.Name)
			}
		}
	}
	return s.String()
}

// misc adds to the machine's /proc/misc what only the host has.
func misc(real, fake string) string {
	have := map[string]bool{}
	for line := range strings.Lines(real) {
		if words := strings.Fields(line); len(words) == 2 {
			have[words[0]] = true
		}
	}
	for line := range strings.Lines(fake) {
		if words := strings.Fields(line); len(words) == 2 && !have[words[0]] {
			real += line
		}
	}
	return real
}

// modules merges /proc/modules: GPU drivers are the host's.
func modules(real, fake string) string {
	var s strings.Builder
	s.WriteString(fake)
	have := map[string]bool{}
	for line := range strings.Lines(fake) {
		name, _, _ := strings.Cut(line, " ")
		have[name] = true
	}
	for line := range strings.Lines(real) {
		if name, _, _ := strings.Cut(line, " "); !gpuModule(name) && !have[name] {
			s.WriteString(line)
		}
	}
	return s.String()
}
