package programs

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"gpurig/core/cdi/nvidia"
	"gpurig/core/host"
	"gpurig/fakehw"
	"gpurig/fakehw/capture"
	"gpurig/fakehw/nvmlfake"
	"gpurig/fakehw/profiles"
	"gpurig/fixtures/hosts"
)

// A recording taken in a machine is one of its profile: the test that keeps both
// honest.
func TestARecordingInsideEqualsTheProfile(t *testing.T) {
	requireNodes(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program := filepath.Join(dir, asCLI)
	if err := os.Symlink(self, program); err != nil {
		t.Fatal(err)
	}
	for _, name := range profiles.Names() {
		t.Run(name, func(t *testing.T) {
			inside := filepath.Join(dir, name+".inside.txtar")
			says(t, name, program, "host", "capture", "-o", inside, "--date", "2025-11-21", "--machine", "a fake")
			got, want := read(t, inside), recorded(t, name)
			if d := cmp.Diff(discovered(t, want), discovered(t, got)); d != "" {
				t.Errorf("the profile (-) is not what is discovered of the recording (+):\n%s", d)
			}
			if d := cmp.Diff(comparable(want), comparable(got)); d != "" {
				t.Errorf("the profile (-) and what was recorded inside (+) differ:\n%s", d)
			}
		})
	}
}

// own matches what the machine's own system has in places that a recording looks
// at: its loaders and C libraries with their settings, and what of /dev and /proc
// has nothing to do with GPUs.
var own = regexp.MustCompile(`^(/usr)?/lib(32|64)?/ld-|/ld-linux-|^/lib(32|64)?$|/x86_64-linux-musl/|^/etc/ld\.so\.|/ld\.so\.conf$` +
	`|^/dev/(char/(1|4|5|10):\d+|console|fd|full|mqueue|null|ptmx|pts|random|shm|std(in|out|err)|tty\d*|urandom|zero|fuse)$` +
	`|^/s?bin$|^/usr/sbin/ldconfig$` +
	// Nothing can be added to /proc, and nothing taken away.
	`|^/proc(/sys(/kernel(/arch)?)?|/devices|/misc|/modules|/driver|/device-tree)?$`)

func read(t *testing.T, file string) hosts.File {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	f, err := hosts.Parse(filepath.Base(file), text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// recorded is the recording of a profile's files and library.
func recorded(t *testing.T, name string) hosts.File {
	t.Helper()
	m := model(t, name)
	files, err := fakehw.Build(m)
	if err != nil {
		t.Fatal(err)
	}
	var lib host.NVML
	if n := nvmlfake.New(m, nvmlfake.Options{}); n.Init() == nvml.SUCCESS {
		lib = nvidia.NVML(n)
	}
	f, err := capture.Record(files, lib, capture.Options{Machine: "a fake", Date: "2025-11-21"})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// comparable leaves out what is the machine's own.
func comparable(f hosts.File) hosts.File {
	f.Notes = nil
	f.Entries = slices.DeleteFunc(f.Entries, func(e hosts.Entry) bool {
		return own.MatchString(e.Path) || e.Kind == hosts.Dir && e.Mode == 0o755 // an empty folder of some system
	})
	for i, e := range f.Entries {
		if e.Kind == hosts.Library || e.Kind == hosts.Program || path.Base(e.Path) == "sriov-manage" {
			f.Entries[i].Size = 0 // in the machine they are larger: they answer
		}
	}
	return f
}

// discovered is the host that a recording is of.
func discovered(t *testing.T, f hosts.File) host.Model {
	t.Helper()
	r, err := capture.Replay(f)
	if err != nil {
		t.Fatal(err)
	}
	m, err := host.Discover(r.Tree, r.NVML)
	if err != nil {
		t.Fatal(err)
	}
	m.OS.MergedUsr = false // how the machine's own system is laid out
	return m
}
