package driverfs

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"testing"

	"gpurig/core/elf"
	"gpurig/core/host"
	"gpurig/core/ldcache"
	"gpurig/fakehw/elfgen"
	"gpurig/fakehw/tree"
	"gpurig/fixtures/golden"
)

// releases are one per branch that the catalogue names.
var releases = []string{"525.60.11", "535.113.01", "550.163.01", "565.57.01", "570.153.02", "580.105.08", "595.91.07"}

// layouts are the ways in which distributions install the driver.
var layouts = []struct {
	name string
	m    host.Model
}{
	{"ubuntu", host.Model{Arch: "x86_64", OS: host.OS{ID: "ubuntu", VersionID: "24.04", MergedUsr: true}, Userspace: &host.Userspace{LibDir: "/usr/lib/x86_64-linux-gnu"}}},
	{"ubuntu-arm", host.Model{Arch: "aarch64", OS: host.OS{ID: "ubuntu", VersionID: "24.04", MergedUsr: true}, Userspace: &host.Userspace{LibDir: "/usr/lib/aarch64-linux-gnu"}}},
	{"debian-unmerged", host.Model{Arch: "x86_64", OS: host.OS{ID: "debian", VersionID: "11"}, Userspace: &host.Userspace{LibDir: "/usr/lib/x86_64-linux-gnu/nvidia/current"}}},
	{"rhel", host.Model{Arch: "x86_64", OS: host.OS{ID: "rhel", VersionID: "9.6", MergedUsr: true}, Userspace: &host.Userspace{LibDir: "/usr/lib64"}}},
	{"rhel-arm", host.Model{Arch: "aarch64", OS: host.OS{ID: "rhel", VersionID: "9.6", MergedUsr: true}, Userspace: &host.Userspace{LibDir: "/usr/lib64"}}},
	{"snap", host.Model{Arch: "x86_64", OS: host.OS{ID: "ubuntu-core", VersionID: "24", MergedUsr: true}, Userspace: &host.Userspace{LibDir: "/usr/lib/x86_64-linux-gnu", DriverRoot: "/var/lib/snapd/hostfs"}}},
	{"driver-container", host.Model{Arch: "x86_64", OS: host.OS{ID: "rhel", VersionID: "9.6", MergedUsr: true}, Userspace: &host.Userspace{LibDir: "/usr/lib64", DriverRoot: "/run/nvidia/driver/"}}},
	{"nix", host.Model{Arch: "x86_64", OS: host.OS{ID: "nixos", VersionID: "25.05"}, Userspace: &host.Userspace{LibDir: "/run/opengl-driver/lib", StorePath: "/nix/store/00000000000000000000000000000000-nvidia-x11"}}},
}

// with returns the model with a release of the driver.
func with(m host.Model, version string) host.Model {
	m = m.Clone()
	m.Userspace.Version = version
	return m
}

func install(t testing.TB, m host.Model) *tree.Tree {
	t.Helper()
	tr := tree.New()
	if err := Install(tr, m); err != nil {
		t.Fatalf("Install: %v", err)
	}
	return tr
}

// each runs f for every release in every layout.
func each(t *testing.T, f func(t *testing.T, m host.Model, tr *tree.Tree)) {
	for _, l := range layouts {
		for _, v := range releases {
			t.Run(l.name+"/"+v, func(t *testing.T) {
				m := with(l.m, v)
				f(t, m, install(t, m))
			})
		}
	}
}

// resolve is the loader's own way from a SONAME to a file.
func resolve(t *testing.T, m host.Model, tr *tree.Tree, soname string) string {
	t.Helper()
	root := strings.TrimRight(m.Userspace.DriverRoot, "/")
	at := m.Userspace.LibDir + "/" + soname
	if m.OS.ID != "nixos" {
		data, err := tr.ReadFile(root + ldcache.File)
		if err != nil {
			t.Fatal(err)
		}
		c, err := ldcache.Parse(data)
		if err != nil || c.Dropped != 0 {
			t.Fatalf("Parse of the tree's cache: %v, %d entries dropped", err, c.Dropped)
		}
		found := c.Lookup(soname)
		if len(found) == 0 {
			t.Errorf("the cache has no %s", soname)
			return ""
		}
		at = found[0].Path
	}
	file, err := host.Resolve(rooted{view{tr, root}}, at)
	if err != nil {
		t.Errorf("%s leads nowhere: %v", at, err)
	}
	return root + file
}

func TestEverySONAMELeadsToTheFileOfItsRelease(t *testing.T) {
	each(t, func(t *testing.T, m host.Model, tr *tree.Tree) {
		in := &installer{t: tr, m: &m, u: *m.Userspace}
		fmt.Sscanf(in.u.Version, "%d", &in.branch)
		checked := 0
		for _, l := range drivers {
			if !in.ships(l) || l.sub != "" { // loaders of VDPAU find theirs by path
				continue
			}
			checked++
			soname := l.name + ".so." + in.u.Version
			if l.soname != "" {
				soname = l.name + ".so." + l.soname
			}
			file := resolve(t, m, tr, soname)
			if file == "" {
				continue
			}
			data, err := tr.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			f, err := elf.Parse(data)
			if err != nil || f.SONAME != soname {
				t.Errorf("%s leads to %s with SONAME %q, %v", soname, file, f.SONAME, err)
			}
			if !l.plain && path.Base(file) != l.name+".so."+in.u.Version {
				t.Errorf("%s leads to %s, not to the file of %s", soname, file, in.u.Version)
			}
			if !strings.Contains(string(data), in.u.Version) {
				t.Errorf("%s does not name %s", file, in.u.Version)
			}
		}
		if checked < 25 {
			t.Errorf("only %d libraries were checked", checked)
		}
	})
}

// dangling returns the links that lead nowhere. Links below a driver root mean
// what they mean to a process that has it as its root.
func dangling(tr *tree.Tree, root string) []string {
	var out []string
	_ = tr.Walk(func(p string, e *tree.Entry) error {
		if !e.IsLink() {
			return nil
		}
		inside, ok := strings.CutPrefix(p, root)
		v := rooted{view{tr, root}}
		if !ok {
			inside, v = p, rooted{view{tr, ""}}
		}
		if _, err := host.Resolve(v, inside); err != nil {
			out = append(out, fmt.Sprintf("%s -> %s: %v", p, e.Target, err))
		}
		return nil
	})
	return out
}

func TestNoLinkDangles(t *testing.T) {
	each(t, func(t *testing.T, m host.Model, tr *tree.Tree) {
		for _, d := range dangling(tr, strings.TrimRight(m.Userspace.DriverRoot, "/")) {
			t.Error(d)
		}
	})
}

func TestTheTreesCacheIsWhatABuildOfItGives(t *testing.T) {
	each(t, func(t *testing.T, m host.Model, tr *tree.Tree) {
		if m.OS.ID == "nixos" {
			if _, err := tr.Lstat(ldcache.File); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("NixOS has a loader cache: %v", err)
			}
			return
		}
		v := view{tr, strings.TrimRight(m.Userspace.DriverRoot, "/")}
		folders, skipped := ldcache.Conf(v)
		built := ldcache.Build(v, folders)
		if len(built.Links) != 0 {
			t.Errorf("ldconfig would make links: %v", built.Links)
		}
		for _, s := range append(skipped, built.Skipped...) {
			if !errors.Is(s.Err, fs.ErrNotExist) {
				t.Errorf("ldconfig would complain: %v", s)
			}
		}
	})
}

// TestFileLists shows every file of a release, for review.
func TestFileLists(t *testing.T) {
	for _, tc := range []struct{ layout, version string }{
		{"ubuntu", "535.113.01"}, {"ubuntu", "550.163.01"}, {"ubuntu", "570.153.02"}, {"ubuntu", "580.105.08"},
		{"ubuntu-arm", "580.105.08"}, {"rhel", "580.105.08"}, {"snap", "535.113.01"}, {"nix", "570.153.02"},
	} {
		t.Run(tc.layout+" "+tc.version, func(t *testing.T) {
			for _, l := range layouts {
				if l.name == tc.layout {
					golden.Equal(t, "testdata/"+tc.layout+"-"+tc.version[:3]+".txt", listing(install(t, with(l.m, tc.version))))
				}
			}
		})
	}
}

func listing(tr *tree.Tree) []byte {
	var b strings.Builder
	_ = tr.Walk(func(p string, e *tree.Entry) error {
		switch {
		case e.IsLink():
			fmt.Fprintf(&b, "%s -> %s\n", p, e.Target)
		case !e.Mode.IsDir():
			fmt.Fprintf(&b, "%s\n", p)
		case len(e.Children) == 0:
			fmt.Fprintf(&b, "%s/\n", p)
		}
		return nil
	})
	return []byte(b.String())
}

func TestWhatRunsLeavesItsSockets(t *testing.T) {
	m := with(layouts[0].m, "570.153.02")
	m.Userspace.Persist, m.Userspace.Fabric, m.Userspace.MPS = true, true, true
	tr := install(t, m)
	for p, want := range map[string]fs.FileMode{
		"/run/nvidia-persistenced/socket":               fs.ModeSocket | 0o777,
		"/var/run/nvidia-fabricmanager/socket":          fs.ModeSocket | 0o700,
		"/tmp/nvidia-mps/control":                       fs.ModeNamedPipe | 0o666,
		"/usr/bin/nv-fabricmanager":                     0o755,
		"/usr/lib/x86_64-linux-gnu/libnvidia-nscq.so.2": fs.ModeSymlink | 0o777,
	} {
		if info, err := tr.Lstat(p); err != nil || info.Mode != want {
			t.Errorf("%s: %v, %v; want %v", p, info.Mode, err, want)
		}
	}
	bare := install(t, with(layouts[0].m, "570.153.02"))
	for _, p := range []string{"/run/nvidia-persistenced", "/run/nvidia-fabricmanager", "/tmp/nvidia-mps", "/etc/nvidia-imex", "/usr/lib/x86_64-linux-gnu/libnvidia-nscq.so.2"} {
		if _, err := bare.Lstat(p); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a host without daemons has %s: %v", p, err)
		}
	}
}

func TestWithoutUserspaceThereIsOnlyTheSystem(t *testing.T) {
	m := layouts[0].m.Clone()
	m.Userspace = nil
	tr := install(t, m)
	_ = tr.Walk(func(p string, e *tree.Entry) error {
		if strings.Contains(strings.ToLower(p), "nvidia") || strings.Contains(p, "cuda") {
			t.Errorf("%s is there", p)
		}
		return nil
	})
	if _, err := tr.ReadFile(ldcache.File); err != nil {
		t.Errorf("no loader cache: %v", err)
	}
}

func TestWhatIsInTheTreeStays(t *testing.T) {
	tr := tree.New()
	for _, err := range []error{
		tr.Mkdir("/usr/lib", 0o755), tr.Symlink("/lib", "usr/lib"), tr.Symlink("/var/run", "../run"),
		tr.WriteFile("/usr/lib/keep", []byte("kept"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := Install(tr, with(layouts[0].m, "550.163.01")); err != nil {
		t.Fatal(err)
	}
	if data, err := tr.ReadFile("/lib/keep"); err != nil || string(data) != "kept" {
		t.Errorf("/lib/keep: %q, %v", data, err)
	}
	if target, _ := tr.Readlink("/var/run"); target != "../run" {
		t.Errorf("/var/run -> %s; the link that was there is gone", target)
	}
}

func TestInstallIsRepeatable(t *testing.T) {
	each(t, func(t *testing.T, m host.Model, tr *tree.Tree) {
		before := fmt.Sprintf("%+v %+v", m, *m.Userspace)
		if again := install(t, m); again.Sum() != tr.Sum() {
			t.Error("two trees of one model differ")
		}
		if err := Install(tr, m); err != nil {
			t.Errorf("Install on its own result: %v", err)
		} else if once := install(t, m); once.Sum() != tr.Sum() {
			t.Error("installing twice gives another tree than once")
		}
		if after := fmt.Sprintf("%+v %+v", m, *m.Userspace); after != before {
			t.Errorf("the model became %s", after)
		}
	})
}

func TestReleasesDifferInContent(t *testing.T) {
	a, b := install(t, with(layouts[0].m, "550.163.01")), install(t, with(layouts[0].m, "550.78"))
	const p = "/usr/lib/x86_64-linux-gnu/libcuda.so.1"
	da, _ := a.ReadFile(p)
	db, _ := b.ReadFile(p)
	if len(da) == 0 || string(da) == string(db) {
		t.Errorf("libcuda.so.1 of two releases is the same %d bytes", len(da))
	}
}

func TestErrorsNameTheFile(t *testing.T) {
	m := with(layouts[0].m, "550.163.01")
	m.Arch = "riscv64"
	if err := Install(tree.New(), m); !errors.Is(err, elfgen.ErrArch) || !strings.Contains(err.Error(), "/sbin/ldconfig") {
		t.Errorf("Install for riscv64 = %v", err)
	}
	tr := tree.New()
	if err := tr.Mkdir("/usr/lib/x86_64-linux-gnu/libcuda.so.1", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Install(tr, with(layouts[0].m, "550.163.01")); err == nil || !strings.Contains(err.Error(), "libcuda.so.1") {
		t.Errorf("Install over a directory = %v", err)
	}
}

func BenchmarkInstall(b *testing.B) {
	m := with(layouts[0].m, "580.105.08")
	b.ReportAllocs()
	for b.Loop() {
		if err := Install(tree.New(), m); err != nil {
			b.Fatal(err)
		}
	}
}
