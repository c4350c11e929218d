package observe_test

import (
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpurig/core/device"
	"gpurig/core/ldcache"
	"gpurig/fakehw/tree"
	"gpurig/runner/observe"
)

// A view is a container made of a tree, by hand.
type view struct {
	*tree.Tree
	mounts []observe.MountLine
	env    []string
	groups []uint32
	open   map[string]syscall.Errno // others: ENXIO
}

func (v *view) Head(p string, n int) ([]byte, error) {
	data, err := v.ReadFile(p)
	return data[:min(n, len(data))], err
}
func (v *view) OpenNode(p string, _ bool) syscall.Errno {
	if e, ok := v.open[p]; ok {
		return e
	}
	return syscall.ENXIO
}
func (v *view) Mounts() ([]observe.MountLine, error) { return v.mounts, nil }
func (v *view) Environ() ([]string, error)           { return v.env, nil }
func (v *view) Groups() ([]uint32, error)            { return v.groups, nil }

// newView returns a container that has what every container has.
func newView(t *testing.T) *view {
	t.Helper()
	v := &view{Tree: tree.New(), env: []string{"container=lxc", "TERM=linux"}, groups: []uint32{0}}
	for p, n := range map[string]device.Num{"/dev/null": {Major: 1, Minor: 3}, "/dev/tty": {Major: 5}, "/dev/console": {Major: 136, Minor: 2}} {
		v.node(t, p, n, 0o666)
	}
	v.link(t, "/dev/fd", "/proc/self/fd")
	v.node(t, "/dev/pts/0", device.Num{Major: 136}, 0o620)
	v.mounts = []observe.MountLine{
		{Target: "/", Type: "ext4", Options: []string{"rw", "relatime"}},
		{Target: "/dev", Type: "tmpfs", Options: []string{"rw"}},
		{Target: "/proc", Type: "proc", Options: []string{"rw", "nosuid"}},
		{Target: "/dev/null", Type: "devtmpfs", Options: []string{"rw"}},
	}
	return v
}

func (v *view) node(t *testing.T, p string, n device.Num, mode uint32) {
	t.Helper()
	if err := v.Mknod(device.Node{Path: p, Type: device.Char, Num: n, Mode: 0o777 & fsMode(mode)}); err != nil {
		t.Fatal(err)
	}
}

func (v *view) link(t *testing.T, p, target string) {
	t.Helper()
	if err := v.Symlink(p, target); err != nil {
		t.Fatal(err)
	}
}

func (v *view) file(t *testing.T, p string, data string) {
	t.Helper()
	if err := v.WriteFile(p, []byte(data), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (v *view) mount(target string, options ...string) {
	v.mounts = append(v.mounts, observe.MountLine{Target: target, Type: "ext4", Options: options})
}

func TestLookLeavesOutWhatEveryContainerHas(t *testing.T) {
	got := observe.Look(newView(t), observe.Request{})
	if diff := cmp.Diff(observe.Observation{}, got); diff != "" {
		t.Errorf("Look(bare container) is not empty (-want +got):\n%s", diff)
	}
}

func TestLookSeesAStandardNodeThatIsAnother(t *testing.T) {
	v := newView(t)
	v.node(t, "/dev/null", device.Num{Major: 195, Minor: 0}, 0o666)
	got := observe.Look(v, observe.Request{})
	if len(got.Nodes) != 1 || got.Nodes[0].Path != "/dev/null" {
		t.Errorf("Look() nodes = %+v; want /dev/null with number 195:0", got.Nodes)
	}
}

func TestLookSaysWhetherANodeOpens(t *testing.T) {
	for _, tc := range []struct {
		name  string
		errno syscall.Errno
		nodev bool
		want  observe.Access
	}{
		{name: "no driver", errno: syscall.ENXIO, want: observe.Allowed},
		{name: "opened", errno: 0, want: observe.Allowed},
		{name: "no device", errno: syscall.ENODEV, want: observe.Allowed},
		{name: "device cgroup forbids", errno: syscall.EPERM, want: observe.Denied},
		{name: "owner and mode forbid", errno: syscall.EACCES, want: observe.NoMode},
		{name: "mount has nodev", errno: syscall.EACCES, nodev: true, want: observe.Nodev},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := newView(t)
			v.node(t, "/dev/nvidia0", device.Num{Major: 195}, 0o666)
			v.open = map[string]syscall.Errno{"/dev/nvidia0": tc.errno}
			if tc.nodev {
				v.mount("/dev/nvidia0", "rw", "nodev")
			}
			got := observe.Look(v, observe.Request{})
			if len(got.Nodes) != 1 || got.Nodes[0].Open != tc.want {
				t.Errorf("Look() with errno %v, nodev %v: nodes %+v; want open %s", tc.errno, tc.nodev, got.Nodes, tc.want)
			}
		})
	}
}

func TestLookNamesEverythingByPath(t *testing.T) {
	v := newView(t)
	v.node(t, "/dev/nvidia-caps/nvidia-cap21", device.Num{Major: 236, Minor: 21}, 0o444)
	v.link(t, "/dev/dri/by-path/pci-0000:07:00.0-card", "../card1")
	v.file(t, "/usr/bin/nvidia-smi", "#!")
	v.link(t, "/usr/lib/libcuda.so.1", "libcuda.so.550.1")
	v.file(t, "/usr/lib/libcuda.so.550.1", "x")
	v.link(t, "/usr/lib/loop", "loop")
	v.mount("/usr/bin/nvidia-smi", "ro", "nosuid", "nodev", "relatime")
	v.env = append(v.env, "NVIDIA_VISIBLE_DEVICES=void")
	v.groups = []uint32{44, 0, 44}
	got := observe.Look(v, observe.Request{
		Dirs:  []string{"/usr/lib", "/nowhere"},
		Paths: []string{"/usr/bin/nvidia-smi", "/usr/lib/libcuda.so.1", "/gone/deep", "/usr/bin", "/usr/bin"},
	})
	want := observe.Observation{
		Nodes:  []observe.Node{{Path: "/dev/nvidia-caps/nvidia-cap21", Type: device.Char, Num: device.Num{Major: 236, Minor: 21}, Mode: 0o444, Open: observe.Allowed}},
		Mounts: []observe.Mount{{Target: "/usr/bin/nvidia-smi", Type: "file", Options: []string{"nodev", "nosuid", "ro"}}},
		Links: []observe.Link{
			{Path: "/dev/dri/by-path/pci-0000:07:00.0-card", Target: "../card1"},
			{Path: "/usr/lib/libcuda.so.1", Target: "libcuda.so.550.1", Final: "/usr/lib/libcuda.so.550.1"},
			{Path: "/usr/lib/loop", Target: "loop"},
		},
		Files: []observe.File{
			{Path: "/gone/deep", Type: "absent"},
			{Path: "/usr/bin", Type: "dir", Mode: 0o755},
			{Path: "/usr/bin/nvidia-smi", Type: "file", Size: 2, Mode: 0o644},
		},
		Env:    []string{"NVIDIA_VISIBLE_DEVICES=void"},
		Groups: []uint32{44},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Look() (-want +got):\n%s", diff)
	}
}

// elf returns a file that begins as an ELF file for machine does.
func elf(machine byte, text string) string {
	return "\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 9) + string([]byte{3, 0, machine, 0}) + strings.Repeat("\x00", 44) + text
}

const x86, arm = 62, 183

func TestLookResolvesLibrariesAsTheLoaderDoes(t *testing.T) {
	const glibcLoader, muslLoader = "/lib64/ld-linux-x86-64.so.2", "/lib/ld-musl-x86_64.so.1"
	for _, tc := range []struct {
		name   string
		files  map[string]string
		env    string
		soname string
		want   observe.Library
	}{
		{name: "no loader", files: map[string]string{"/usr/lib/a.so": elf(x86, "")}, soname: "a.so",
			want: observe.Library{Problem: "no loader in this root"}},
		{name: "not there", files: map[string]string{glibcLoader: elf(x86, "")}, soname: "a.so"},
		{name: "multiarch folder", files: map[string]string{glibcLoader: elf(x86, ""), "/usr/lib/x86_64-linux-gnu/a.so": elf(x86, "")}, soname: "a.so",
			want: observe.Library{Path: "/usr/lib/x86_64-linux-gnu/a.so", Final: "/usr/lib/x86_64-linux-gnu/a.so", Via: "default folders"}},
		{name: "lib64", files: map[string]string{glibcLoader: elf(x86, ""), "/usr/lib64/a.so": elf(x86, "")}, soname: "a.so",
			want: observe.Library{Path: "/usr/lib64/a.so", Final: "/usr/lib64/a.so", Via: "default folders"}},
		{name: "glibc passes over another machine's file", soname: "a.so",
			files: map[string]string{glibcLoader: elf(x86, ""), "/lib64/a.so": elf(arm, ""), "/usr/lib64/a.so": elf(x86, "")},
			want:  observe.Library{Path: "/usr/lib64/a.so", Final: "/usr/lib64/a.so", Via: "default folders"}},
		{name: "another machine's file if there is no other", soname: "a.so",
			files: map[string]string{glibcLoader: elf(x86, ""), "/usr/lib64/a.so": elf(arm, "")},
			want:  observe.Library{Path: "/usr/lib64/a.so", Final: "/usr/lib64/a.so", Via: "default folders"}},
		{name: "leftover-empty-files: the loader fails on it", soname: "a.so",
			files: map[string]string{glibcLoader: elf(x86, ""), "/lib64/a.so": "", "/usr/lib64/a.so": elf(x86, "")},
			want:  observe.Library{Path: "/lib64/a.so", Final: "/lib64/a.so", Via: "default folders", Problem: "file too short"}},
		{name: "LD_LIBRARY_PATH first", soname: "a.so", env: "LD_LIBRARY_PATH=/opt::/usr/lib64",
			files: map[string]string{glibcLoader: elf(x86, ""), "/opt/a.so": elf(x86, ""), "/usr/lib64/a.so": elf(x86, "")},
			want:  observe.Library{Path: "/opt/a.so", Final: "/opt/a.so", Via: "LD_LIBRARY_PATH"}},
		{name: "musl's own folders", soname: "a.so",
			files: map[string]string{muslLoader: elf(x86, ""), "/usr/local/lib/a.so": elf(x86, ""), "/usr/lib/a.so": elf(x86, "")},
			want:  observe.Library{Path: "/usr/local/lib/a.so", Final: "/usr/local/lib/a.so", Via: "default folders"}},
		{name: "musl's path file replaces them", soname: "a.so",
			files: map[string]string{muslLoader: elf(x86, ""), "/etc/ld-musl-x86_64.path": "/lib\n/opt/gpu\n", "/usr/lib/a.so": elf(x86, ""), "/opt/gpu/a.so": elf(x86, "")},
			want:  observe.Library{Path: "/opt/gpu/a.so", Final: "/opt/gpu/a.so", Via: "musl path file"}},
		{name: "an empty path file names nothing", soname: "a.so",
			files: map[string]string{muslLoader: elf(x86, ""), "/etc/ld-musl-x86_64.path": "", "/usr/lib/a.so": elf(x86, "")}},
		{name: "musl takes no notice of ld.so.cache", soname: "a.so",
			files: map[string]string{muslLoader: elf(x86, ""), "/etc/ld.so.cache": "junk", "/lib/a.so": elf(x86, "")},
			want:  observe.Library{Path: "/lib/a.so", Final: "/lib/a.so", Via: "default folders"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := newView(t)
			for p, data := range tc.files {
				v.file(t, p, data)
			}
			if tc.env != "" {
				v.env = append(v.env, tc.env)
			}
			got := observe.Look(v, observe.Request{SONAMEs: []string{tc.soname}})
			tc.want.SONAME = tc.soname
			if len(got.Libraries) != 1 || got.Libraries[0] != tc.want || len(got.Problems) > 0 {
				t.Errorf("Look(%s) = %+v, problems %q; want %+v", tc.soname, got.Libraries, got.Problems, tc.want)
			}
		})
	}
}

func TestLookReportsWhatItCouldNotSee(t *testing.T) {
	v := newView(t)
	v.file(t, "/lib64/ld-linux-x86-64.so.2", elf(x86, ""))
	v.file(t, "/usr/lib/a.so", elf(x86, ""))
	for what, data := range map[string]string{
		"damaged entries": damagedCache(),
		"":                "junk", // the loader does without
	} {
		v.file(t, "/etc/ld.so.cache", data)
		got := observe.Look(v, observe.Request{SONAMEs: []string{"a.so"}})
		if text := strings.Join(got.Problems, "; "); !strings.Contains(text, what) || (what == "") != (text == "") || (what == "") != (got.Libraries[0].Path == "/usr/lib/a.so") {
			t.Errorf("Look() with the cache %.30q: %+v, problems %q; want %q", data, got.Libraries, got.Problems, what)
		}
	}
}

// damagedCache has an entry whose path a loader would take and we do not.
func damagedCache() string {
	c := ldcache.Cache{Entries: []ldcache.Entry{{SONAME: "a.so", Path: "/usr/lib/../a.so", Flags: ldcache.FlagsX8664}}}
	return string(c.Marshal())
}

// known is a container whose files have identities: those of the host's are 1.
type known struct {
	*view
	host string
}

func (k known) Identity(p string) (observe.FileID, error) {
	if p == k.host {
		return observe.FileID{Dev: 1, Ino: 1}, nil
	}
	return observe.FileID{Dev: 1, Ino: 2}, nil
}

// A49.
func TestLookSaysWhoseFileALibraryIs(t *testing.T) {
	v := newView(t)
	v.file(t, "/lib64/ld-linux-x86-64.so.2", elf(x86, ""))
	v.file(t, "/usr/lib64/a.so", elf(x86, ""))
	v.file(t, "/usr/lib64/b.so", elf(x86, ""))
	got := observe.Look(known{v, "/usr/lib64/a.so"}, observe.Request{SONAMEs: []string{"a.so", "b.so", "c.so"}})
	observe.Identify(&got, func(id observe.FileID) (string, bool) { return "/host/a.so.1", id.Ino == 1 })
	want := []observe.Library{
		{SONAME: "a.so", Path: "/usr/lib64/a.so", Final: "/usr/lib64/a.so", Via: "default folders", Origin: "/host/a.so.1"},
		{SONAME: "b.so", Path: "/usr/lib64/b.so", Final: "/usr/lib64/b.so", Via: "default folders", Origin: observe.Image},
		{SONAME: "c.so"},
	}
	if !slices.Equal(got.Libraries, want) {
		t.Errorf("Look() = %+v, want %+v", got.Libraries, want)
	}
	other := observe.Observation{Libraries: slices.Clone(want)}
	other.Libraries[0].Origin = observe.Image
	if d := observe.Diff(got, other); len(d) != 1 || d[0].What != "a.so" || !strings.Contains(d[0].B, "image") {
		t.Errorf("Diff() = %v, want one of a.so", d)
	}
	other.Libraries[0].Origin, other.Libraries[1].Origin = "", ""
	if d := observe.Diff(got, other); len(d) != 0 {
		t.Errorf("Diff() with what nobody can tell = %v", d)
	}
}

// locked is a container whose root may not read one path.
type locked struct {
	*view
	path string
}

func (l locked) ReadFile(p string) ([]byte, error) {
	if p == l.path {
		return nil, &fs.PathError{Op: "open", Path: p, Err: syscall.EACCES}
	}
	return l.view.ReadFile(p)
}

func TestLookSearchesWhatCanBeRead(t *testing.T) {
	v := newView(t)
	v.file(t, "/etc/found", "before canary-1 after")
	v.link(t, "/etc/link", "to/canary-1")
	v.link(t, "/etc/other", "/etc/found") // the file counts once
	v.file(t, "/srv/locked", "canary-1")
	v.file(t, "/proc/1/environ", "canary-1")
	v.file(t, "/dev/shm/x", "canary-1")
	v.file(t, "/dev/dri/x", "canary-1")
	got := observe.Look(locked{v, "/srv/locked"}, observe.Request{Texts: []string{"canary-1", "canary-2"}, Contents: []string{"/etc/other", "/srv/locked", "/none", "/etc"}})
	var found []string
	for _, f := range got.Found {
		found = append(found, f.Path+" "+f.Text)
	}
	if want := []string{"/dev/dri/x canary-1", "/etc/found canary-1", "/etc/link canary-1"}; !slices.Equal(found, want) || len(got.Problems) > 0 {
		t.Errorf("found %q with problems %q; want %q", found, got.Problems, want)
	}
	want := []observe.Content{{Path: "/etc", Problem: "cannot be read"}, {Path: "/etc/other", Text: "before canary-1 after"},
		{Path: "/none", Problem: "no such file"}, {Path: "/srv/locked", Problem: "cannot be read"}}
	if diff := cmp.Diff(want, got.Contents); diff != "" {
		t.Errorf("contents (-want +got):\n%s", diff)
	}
	other := got
	other.Found, other.Contents = got.Found[1:], got.Contents[1:]
	if d := observe.Diff(got, other); len(d) != 2 || d[0].Part != "contents" || d[1].Part != "found" {
		t.Errorf("differences %v; want one of contents and one of found", d)
	}
}

func TestDiffNamesEachEntry(t *testing.T) {
	node := observe.Node{Path: "/dev/nvidia0", Type: device.Char, Num: device.Num{Major: 195}, Mode: 0o666, Open: observe.Allowed}
	denied := node
	denied.Open = observe.Denied
	mount := observe.Mount{Target: "/x", Type: "file", Options: []string{"rw"}}
	a := observe.Observation{Nodes: []observe.Node{node}, Mounts: []observe.Mount{mount, mount}, Env: []string{"A=1"}}
	b := observe.Observation{Nodes: []observe.Node{denied}, Mounts: []observe.Mount{mount}, Groups: []uint32{44}}
	want := []string{
		"nodes: /dev/nvidia0: c 195:0 0666 0:0 allowed | c 195:0 0666 0:0 denied",
		"mounts: /x: file rw | nothing",
		"env: A: =1 | nothing",
		"groups: 44: nothing | member",
	}
	var got []string
	for _, d := range observe.Diff(a, b) {
		got = append(got, d.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Diff() (-want +got):\n%s", diff)
	}
	if d := observe.Diff(a, a); d != nil {
		t.Errorf("Diff(a, a) = %v; want none", d)
	}
}
