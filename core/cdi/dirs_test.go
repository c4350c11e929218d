package cdi_test

import (
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"gpurig/core/cdi"
	"gpurig/core/refuse"
)

// specOf returns a Spec of a kind with devices that have one variable each.
func specOf(kind string, devices ...string) string {
	s := "cdiVersion: 0.5.0\nkind: " + kind + "\ndevices:\n"
	for _, d := range devices {
		s += fmt.Sprintf("- name: %q\n  containerEdits: {env: [\"D=%s\"]}\n", d, d)
	}
	return s
}

func TestReadDirs(t *testing.T) {
	good := memFile{data: specOf("vendor.com/dev", "a")}
	chain := memRoot{"/etc/cdi/good.yaml": good, "/etc/cdi/z.yaml": link("/l/0")}
	for i := range 45 {
		chain[fmt.Sprintf("/l/%d", i)] = link(fmt.Sprintf("/l/%d", i+1))
	}
	chain["/l/45"] = good
	for _, tc := range []struct {
		name     string
		root     memRoot
		want     string // files read, in order
		problems string // "path reason", in order
	}{
		{name: "no directory at all (B5)", root: memRoot{"/etc/x": good}},
		{name: "the first directory missing (B5, spec-dirs)", root: memRoot{"/var/run/cdi/a.yaml": good}, want: "/var/run/cdi/a.yaml"},
		{name: "other names are not Specs", root: memRoot{"/etc/cdi/README": good, "/etc/cdi/a.yaml.bak": good, "/etc/cdi/a.yaml": good}, want: "/etc/cdi/a.yaml"},
		{name: "an ending that CDI does not read", root: memRoot{"/etc/cdi/a.yml": good}, problems: "/etc/cdi/a.yml spec-extension"},
		{name: "B1 a FIFO", root: memRoot{"/etc/cdi/a.yaml": {mode: fs.ModeNamedPipe | 0o644}, "/etc/cdi/good.yaml": good}, want: "/etc/cdi/good.yaml", problems: "/etc/cdi/a.yaml spec-not-regular"},
		{name: "B2 a link to an endless device", root: memRoot{"/etc/cdi/a.yaml": link("/dev/zero"), "/dev/zero": {mode: fs.ModeDevice | fs.ModeCharDevice | 0o666}, "/etc/cdi/good.yaml": good},
			want: "/etc/cdi/good.yaml", problems: "/etc/cdi/a.yaml spec-not-regular"},
		{name: "B3 a directory with a Spec inside, a socket and a block device", root: memRoot{"/etc/cdi/a.json/b.yaml": good, "/etc/cdi/s.json": {mode: fs.ModeSocket | 0o600}, "/etc/cdi/b.json": {mode: fs.ModeDevice | 0o600}, "/etc/cdi/good.yaml": good},
			want: "/etc/cdi/good.yaml", problems: "/etc/cdi/a.json spec-not-regular, /etc/cdi/b.json spec-not-regular, /etc/cdi/s.json spec-not-regular"},
		{name: "B4 a link to itself", root: memRoot{"/etc/cdi/a.yaml": link("a.yaml"), "/etc/cdi/good.yaml": good}, want: "/etc/cdi/good.yaml", problems: "/etc/cdi/a.yaml spec-not-regular"},
		{name: "B4 a dangling link", root: memRoot{"/etc/cdi/a.yaml": link("gone"), "/etc/cdi/good.yaml": good}, want: "/etc/cdi/good.yaml", problems: "/etc/cdi/a.yaml spec-not-regular"},
		{name: "B4 a chain of 45 links", root: chain, want: "/etc/cdi/good.yaml", problems: "/etc/cdi/z.yaml spec-not-regular"},
		{name: "B4 a directory that links to itself", root: memRoot{"/etc/cdi": link("cdi"), "/var/run/cdi/a.yaml": good}, want: "/var/run/cdi/a.yaml", problems: "/etc/cdi spec-unreadable"},
		{name: "a link to a regular file", root: memRoot{"/etc/cdi/a.yaml": link("../x"), "/etc/x": good}, want: "/etc/cdi/a.yaml"},
		{name: "/var/run as a link", root: memRoot{"/var/run": link("/run"), "/run/cdi/a.yaml": good}, want: "/var/run/cdi/a.yaml"},
		{name: "both directories the same", root: memRoot{"/var/run/cdi": link("/etc/cdi"), "/etc/cdi/a.yaml": good}, want: "/etc/cdi/a.yaml"},
		{name: "B5 an unreadable file (spec-0600)", root: memRoot{"/etc/cdi/a.yaml": {err: syscall.EACCES}, "/etc/cdi/good.yaml": good}, want: "/etc/cdi/good.yaml", problems: "/etc/cdi/a.yaml spec-unreadable"},
		{name: "B5 an unreadable directory", root: memRoot{"/etc/cdi": {err: syscall.EACCES}, "/var/run/cdi/a.yaml": good}, want: "/var/run/cdi/a.yaml", problems: "/etc/cdi spec-unreadable"},
		{name: "B5 a file in place of a directory", root: memRoot{"/etc/cdi": good}, problems: "/etc/cdi spec-unreadable"},
		{name: "B6 an empty file", root: memRoot{"/etc/cdi/a.yaml": {}, "/etc/cdi/good.yaml": good}, want: "/etc/cdi/good.yaml", problems: "/etc/cdi/a.yaml spec-empty"},
		{name: "B9 two sparse gigabytes", root: memRoot{"/etc/cdi/a.yaml": {size: 2 << 30, read: func() (int, bool) { panic("read") }}}, problems: "/etc/cdi/a.yaml spec-too-large"},
		{name: "B7 a file that stays short", root: memRoot{"/etc/cdi/a.yaml": {data: good.data, read: func() (int, bool) { return 40, true }}}, problems: "/etc/cdi/a.yaml spec-changing"},
		{name: "B20 twice in one directory", root: memRoot{"/etc/cdi/a.yaml": good, "/etc/cdi/b.yaml": good}, want: "/etc/cdi/a.yaml /etc/cdi/b.yaml", problems: "/etc/cdi/a.yaml device-conflict"},
		{name: "B20 and once in the higher one", root: memRoot{"/etc/cdi/a.yaml": good, "/etc/cdi/b.yaml": good, "/var/run/cdi/c.yaml": good},
			want: "/etc/cdi/a.yaml /etc/cdi/b.yaml /var/run/cdi/c.yaml", problems: "/var/run/cdi/c.yaml spec-overridden (note)"},
		{name: "B20 names that differ in case are two", root: memRoot{"/etc/cdi/a.yaml": good, "/etc/cdi/b.yaml": {data: specOf("vendor.com/dev", "A")}}, want: "/etc/cdi/a.yaml /etc/cdi/b.yaml"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, problems := cdi.ReadDirs(tc.root, cdi.DefaultDirs())
			var files, ps []string
			for _, s := range got {
				files = append(files, s.Where)
			}
			for _, p := range problems {
				line := p.Path + " " + string(p.Reason)
				if p.Note {
					line += " (note)"
				}
				ps = append(ps, line)
			}
			if strings.Join(files, " ") != tc.want || strings.Join(ps, ", ") != tc.problems {
				t.Errorf("ReadDirs reads %q, problems %q;\nwant %q, %q\n%v", files, ps, tc.want, tc.problems, problems)
			}
		})
	}
}

func TestReadDirsRetriesAFileThatIsBeingWritten_B7_F22(t *testing.T) {
	data, calls := specOf("vendor.com/dev", "a", "b"), 0
	root := memRoot{"/etc/cdi/a.yaml": {data: data, read: func() (int, bool) {
		calls++
		return 80, calls < 3 // cut after the first device, which is valid YAML
	}}}
	got, problems := cdi.ReadDirs(root, []string{"/etc/cdi"})
	if len(got) != 1 || len(got[0].Spec.Devices) != 2 || calls != 3 {
		t.Errorf("ReadDirs = %v, %v after %d reads; want both devices at the third", got, problems, calls)
	}
}

func TestReaderRootOnly_A32(t *testing.T) {
	good := specOf("vendor.com/dev", "a")
	for _, tc := range []struct {
		name string
		root memRoot
		why  string // empty: trusted
	}{
		{"root's alone", memRoot{"/etc/cdi/a.yaml": {data: good}}, ""},
		{"a user's file", memRoot{"/etc/cdi/a.yaml": {data: good, uid: 1000}}, "/etc/cdi/a.yaml belongs to user 1000"},
		{"a file for everybody", memRoot{"/etc/cdi/a.yaml": {data: good, mode: 0o666}}, "/etc/cdi/a.yaml is writable for others than root (mode 0666)"},
		{"a file for a group", memRoot{"/etc/cdi/a.yaml": {data: good, mode: 0o664}}, "mode 0664"},
		{"a directory for everybody", memRoot{"/etc/cdi/a.yaml": {data: good}, "/etc/cdi": {mode: fs.ModeDir | fs.ModeSticky | 0o777}}, "/etc/cdi is writable"},
		{"a directory above for everybody", memRoot{"/etc/cdi/a.yaml": {data: good}, "/etc": {mode: fs.ModeDir | 0o777}}, "/etc is writable"},
		{"a link to a home directory", memRoot{"/etc/cdi/a.yaml": link("/home/u/a.yaml"), "/home/u/a.yaml": {data: good}, "/home/u": {mode: fs.ModeDir | 0o700, uid: 1000}}, "/home/u belongs to user 1000"},
		{"a user's link", memRoot{"/etc/cdi/a.yaml": {mode: fs.ModeSymlink | 0o777, data: "/x.yaml", uid: 7}, "/x.yaml": {data: good}}, "/etc/cdi/a.yaml belongs to user 7"},
		{"a link to root's file", memRoot{"/etc/cdi/a.yaml": link("../x.yaml"), "/etc/x.yaml": {data: good}}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, problems := (&cdi.Reader{Root: tc.root, Dirs: []string{"/etc/cdi"}, RootOnly: true}).Read()
			if tc.why == "" {
				if len(got) != 1 || len(problems) != 0 {
					t.Fatalf("Read = %v, %v; want the Spec", got, problems)
				}
				return
			}
			if len(got) != 0 || len(problems) != 1 || problems[0].Reason != cdi.ReasonSpecUntrusted || !strings.Contains(problems[0].Msg, tc.why) {
				t.Errorf("Read = %v, %v; want no Spec because %q", got, problems, tc.why)
			}
			if got, _ := cdi.ReadDirs(tc.root, []string{"/etc/cdi"}); len(got) != 1 {
				t.Error("without RootOnly the Spec is not read either")
			}
		})
	}
}

func TestReaderLocksVendorsToADirectory_A32(t *testing.T) {
	root := memRoot{"/etc/cdi/a.yaml": {data: specOf("vendor.com/dev", "a")}, "/var/run/cdi/b.yaml": {data: specOf("vendor.com/dev", "a")}, "/var/run/cdi/c.yaml": {data: specOf("other.com/dev", "a")}}
	got, problems := (&cdi.Reader{Root: root, Dirs: cdi.DefaultDirs(), VendorDirs: map[string]string{"vendor.com": "/etc/cdi/"}}).Read()
	if len(got) != 2 || got[0].Where != "/etc/cdi/a.yaml" || got[1].Where != "/var/run/cdi/c.yaml" ||
		len(problems) != 1 || problems[0].Path != "/var/run/cdi/b.yaml" || problems[0].Reason != cdi.ReasonSpecWrongDir {
		t.Errorf("Read = %v, %v; want a and c, and b refused", got, problems)
	}
}

func TestReadDirsSaysWhoWonWithItsSum_A32(t *testing.T) {
	root := memRoot{"/etc/cdi/a.yaml": {data: specOf("vendor.com/dev", "a")}, "/var/run/cdi/b.yaml": {data: specOf("vendor.com/dev", "a")}}
	got, problems := cdi.ReadDirs(root, cdi.DefaultDirs())
	if len(problems) != 1 || len(got) != 2 || !strings.Contains(problems[0].String(), got[1].SHA256) || len(got[1].SHA256) != 64 ||
		!strings.Contains(problems[0].Msg, "not from /etc/cdi/a.yaml") {
		t.Errorf("ReadDirs says %v; want the winner with its SHA-256 and the loser", problems)
	}
}

// The files are read once: what replaces one between two questions changes
// nothing, so that no container gets edits of two generations.
func TestOneSnapshotForAllEdits_F23(t *testing.T) {
	root := memRoot{"/etc/cdi/a.yaml": {data: specOf("vendor.com/dev", "a", "b")}}
	got, problems := cdi.ReadDirs(root, cdi.DefaultDirs())
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	sum := got[0].SHA256
	root["/etc/cdi/a.yaml"] = memFile{data: specOf("vendor.com/dev", "a")}
	root["/var/run/cdi/b.yaml"] = memFile{data: specOf("vendor.com/dev", "b")}
	for _, device := range []string{"a", "b"} {
		edits, err := cdi.Resolve(got, []cdi.Name{{Vendor: "vendor.com", Class: "dev", Device: device}})
		if err != nil || len(edits) == 0 || edits[0].Spec != "/etc/cdi/a.yaml" || got[0].SHA256 != sum {
			t.Errorf("device %s is of %+v, %v; want the file as it was read", device, edits, err)
		}
	}
	now, _ := cdi.ReadDirs(root, cdi.DefaultDirs())
	if len(now) != 2 || now[0].SHA256 == sum {
		t.Error("read again, nothing is new: the test changed nothing")
	}
}

func TestExplainNamesDirectoriesAndUnusableFiles_B5_spec_dirs(t *testing.T) {
	root := memRoot{"/etc/cdi/a.yaml": {err: syscall.EACCES}, "/var/run/cdi/b.yaml": {data: specOf("vendor.com/dev", "a")}}
	got, problems := cdi.ReadDirs(root, cdi.DefaultDirs())
	_, err := cdi.Resolve(got, []cdi.Name{{Vendor: "nvidia.com", Class: "gpu", Device: "all"}})
	err = cdi.Explain(err, cdi.DefaultDirs(), problems)
	es := refuse.As(err)
	if len(es) != 1 || !strings.Contains(es[0].Hint, "Looked in /etc/cdi, /var/run/cdi. Not usable: /etc/cdi/a.yaml.") {
		t.Errorf("Explain gives the hint %q", es[0].Hint)
	}
}

func TestReasonsAreAllExplained(t *testing.T) {
	seen := map[refuse.Reason]bool{}
	for _, m := range cdi.Reasons() {
		if seen[m.Reason] || !strings.HasSuffix(m.Meaning, ".") || strings.ContainsAny(string(m.Reason), " _ABC") {
			t.Errorf("%+v: twice, or no sentence, or no word", m)
		}
		seen[m.Reason] = true
	}
	src := constants(t, "reason.go")
	if len(src) < 40 {
		t.Fatalf("only %d constants found", len(src))
	}
	for _, r := range src {
		if !seen[r] {
			t.Errorf("the reason %q has no meaning in Reasons()", r)
		}
	}
	if len(src) != len(seen) {
		t.Errorf("%d constants, %d meanings", len(src), len(seen))
	}
}
