package userspace_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"slices"
	"strings"
	"testing"

	"gpurig/fakehw/machine"
	"gpurig/fakehw/machine/machinetest"
	"gpurig/fakehw/userspace"
)

func TestMain(m *testing.M) {
	machine.Init()
	os.Exit(m.Run())
}

func TestWithoutACompilerThereIsAWarningAndAMachine(t *testing.T) {
	t.Setenv("CC", "/no/such/compiler")
	h := machinetest.Host(t, "dgx-a100")
	var o machine.Options
	var warn strings.Builder
	if err := userspace.Add(t.Context(), h, &o, userspace.Options{Warn: &warn}); err != nil {
		t.Fatal(err)
	}
	if w := warn.String(); strings.Count(w, "\n") != 1 || !strings.Contains(w, "no C compiler") {
		t.Errorf("the warning is %q", w)
	}
	if len(o.Files) != 0 || len(o.Serve) != 1 || len(o.Live) != 1 {
		t.Errorf("the machine gets %d files, %d sockets, %d live files", len(o.Files), len(o.Serve), len(o.Live))
	}
	machinetest.Require(t)
	machinetest.Shell(t, h, o, "test -S /run/gpurig/control && test -s /run/gpurig/nvml.state")
}

func TestWhichFilesAreReplaced(t *testing.T) {
	for profile, want := range map[string]string{
		"dgx-a100":        "/usr/lib/x86_64-linux-gnu/libcuda.so.535.113.01 /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.535.113.01",
		"jetson-agx-orin": "/usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1.1 /usr/lib/aarch64-linux-gnu/nvidia/libnvidia-ml.so.1",
		"no-driver":       "",
	} {
		h := machinetest.Host(t, profile)
		o := machinetest.Working(t, h, machine.Options{})
		var got []string
		for p := range o.Files {
			if strings.Contains(p, ".so") {
				got = append(got, p)
			}
		}
		slices.Sort(got)
		if g := strings.Join(got, " "); g != want {
			t.Errorf("%s: %s; want %s", profile, g, want)
		}
	}
}

// The libraries of a driver export what those of its packages do: how many names was
// counted there.
func TestLibrariesHaveTheNamesOfTheirVersion(t *testing.T) {
	for profile, want := range map[string][2]int{"dgx-a100": {332, 620}, "dgx-h100": {350, 656}, "l40s-server": {404, 707}} {
		h := machinetest.Host(t, profile)
		o := machinetest.Working(t, h, machine.Options{})
		for p, data := range o.Files {
			i := slices.IndexFunc([]string{"/libnvidia-ml.so.", "/libcuda.so."}, func(name string) bool { return strings.Contains(p, name) })
			if i < 0 {
				continue
			}
			f, err := elf.NewFile(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			symbols, err := f.DynamicSymbols()
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for _, s := range symbols {
				if s.Section != elf.SHN_UNDEF {
					n++
				}
			}
			if n != want[i] {
				t.Errorf("%s: %s exports %d names; want %d", profile, p, n, want[i])
			}
			for _, s := range libraryCalls(t, f) { // else the library would call address 0
				if slices.ContainsFunc(symbols, func(x elf.Symbol) bool { return x.Name == s && x.Section == elf.SHN_UNDEF }) {
					t.Errorf("%s: %s calls its own %s, which is hidden", profile, p, s)
				}
			}
		}
	}
}

// libraryCalls returns the names of NVIDIA's that a library calls through its table.
func libraryCalls(t *testing.T, f *elf.File) []string {
	t.Helper()
	table, err := f.Section(".rela.plt").Data()
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for ; len(table) >= 24; table = table[24:] {
		name := symbols[binary.LittleEndian.Uint32(table[12:])-1].Name
		if name == "cuStreamGetDevice" { // from its form for another default stream, which came with it
			continue
		}
		if strings.HasPrefix(name, "cu") || strings.HasPrefix(name, "nvml") {
			out = append(out, name)
		}
	}
	return out
}
