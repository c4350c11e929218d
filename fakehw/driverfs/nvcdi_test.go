package driverfs

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/NVIDIA/nvidia-container-toolkit/pkg/lookup"
	"github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/host"
	"gpurig/fakehw/disk"
)

// onDisk writes the machine's files into a folder, since nvcdi reads real ones.
func onDisk(t *testing.T, m host.Model) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := disk.Write(t.Context(), install(t, m), dir, disk.Options{}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestNVCDIFindsTheDriver lets NVIDIA's own library look for the driver: it
// learns the version from libcuda.so.*.*, then wants every library with that
// suffix.
func TestNVCDIFindsTheDriver(t *testing.T) {
	for _, l := range layouts {
		if l.name == "nix" || l.name == "snap" || l.name == "driver-container" {
			continue // below
		}
		t.Run(l.name, func(t *testing.T) {
			m := with(l.m, "580.105.08")
			findDriver(t, m, onDisk(t, m))
		})
	}
	t.Run("snap", func(t *testing.T) {
		m := with(layouts[5].m, "535.113.01")
		findDriver(t, m, onDisk(t, m)+m.Userspace.DriverRoot)
	})
	t.Run("driver container", func(t *testing.T) {
		m := with(layouts[6].m, "570.153.02")
		findDriver(t, m, onDisk(t, m)+strings.TrimRight(m.Userspace.DriverRoot, "/"))
	})
}

func findDriver(t *testing.T, m host.Model, root string) {
	t.Helper()
	libs := lookup.NewLibraryLocator(lookup.WithRoot(root))
	found, err := libs.Locate("libcuda.so.*.*")
	if err != nil || len(found) != 1 || path.Base(found[0]) != "libcuda.so."+m.Userspace.Version {
		t.Fatalf("libcuda.so.*.* is %v, %v", found, err)
	}
	lib, err := nvcdi.New(nvcdi.WithMode(nvcdi.ModeManagement), nvcdi.WithDriverRoot(root), nvcdi.WithNVIDIACDIHookPath("/usr/bin/nvidia-cdi-hook"))
	if err != nil {
		t.Fatal(err)
	}
	edits, err := lib.GetCommonEdits()
	if err != nil {
		t.Fatalf("GetCommonEdits: %v", err)
	}
	var mounts []string
	for _, mount := range edits.Mounts {
		mounts = append(mounts, mount.ContainerPath)
	}
	u := m.Userspace
	want := []string{"/usr/bin/nvidia-smi", "/usr/bin/nvidia-cuda-mps-server", "/lib/firmware/nvidia/" + u.Version + "/gsp_ga10x.bin"}
	in := &installer{m: &m, u: *u, branch: 580}
	for _, l := range drivers {
		if in.ships(l) && !l.plain && l.since <= 535 && l.until == 0 {
			want = append(want, path.Join(u.LibDir, l.sub, l.name+".so."+u.Version))
		}
	}
	for _, p := range want {
		if !slices.Contains(mounts, p) {
			t.Errorf("nvcdi does not mount %s; it mounts %v", p, mounts)
		}
	}
	hooks := edits.Hooks
	if !slices.ContainsFunc(hooks, func(h *specs.Hook) bool { return slices.Contains(h.Args, "libcuda.so.1::"+u.LibDir+"/libcuda.so") }) {
		t.Error("nvcdi makes no libcuda.so")
	}
}

// TestNVCDIFindsTheDriverOfNixOSWhereItIsTold passes the folder, as NixOS does:
// the usual ones have nothing, and there is no cache.
func TestNVCDIFindsTheDriverOfNixOSWhereItIsTold(t *testing.T) {
	m := with(layouts[7].m, "570.153.02")
	if _, err := lookup.NewLibraryLocator(lookup.WithRoot(onDisk(t, m))).Locate("libcuda.so.*.*"); err == nil {
		t.Error("the driver was found without being told where")
	}
}

// TestNVCDIReadsTheJetsonFiles counts what becomes of the rows.
func TestNVCDIReadsTheJetsonFiles(t *testing.T) {
	for _, tc := range jetsons {
		if tc.name == "igx-with-card" {
			continue
		}
		t.Run(tc.name, func(t *testing.T) {
			root := onDisk(t, tc.m)
			var files []string
			for _, name := range tc.m.Tegra.CSV {
				files = append(files, root+csvFolder+name)
			}
			lib, err := nvcdi.New(nvcdi.WithMode(nvcdi.ModeCSV), nvcdi.WithDriverRoot(root), nvcdi.WithCSVFiles(files), nvcdi.WithNVIDIACDIHookPath("/usr/bin/nvidia-cdi-hook"))
			if err != nil {
				t.Fatal(err)
			}
			edits, err := lib.GetCommonEdits()
			if err != nil {
				t.Fatalf("GetCommonEdits: %v", err)
			}
			if n := len(edits.Mounts); n < tc.lib-8 {
				t.Errorf("%d mounts out of %d rows of type lib", n, tc.lib)
			}
			links := 0
			for _, h := range edits.Hooks {
				links += strings.Count(strings.Join(h.Args, " "), "::")
			}
			if links < tc.sym-4 {
				t.Errorf("%d links out of %d rows of type sym", links, tc.sym)
			}
			t.Logf("%d mounts, %d links", len(edits.Mounts), links)
		})
	}
}
