package policyfile_test

import (
	"errors"
	"io/fs"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"gpurig/core/host"
	"gpurig/core/policy"
	"gpurig/core/policy/policyfile"
	"gpurig/core/refuse"
)

const whole = `# what this host allows beyond the table
drivers: [vfio, 17000000.ga10b]
block-drivers:
  - vendorblk
sources: [/srv/vendor, "/srv/a b"]
writable: [/srv/pipe]
tmpfs: [/tmp/data]
environment: [FOO, NO]
leave-out: [vendor-hook]
`

func TestParse(t *testing.T) {
	got, err := policyfile.Parse([]byte(whole), "p.yaml")
	want := policy.Policy{
		Drivers: []string{"vfio", "17000000.ga10b"}, BlockDrivers: []string{"vendorblk"}, Sources: []string{"/srv/vendor", "/srv/a b"},
		Writable: []string{"/srv/pipe"}, Tmpfs: []string{"/tmp/data"}, Environment: []string{"FOO", "NO"}, LeaveOut: []string{"vendor-hook"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Parse = %+v, %v", got, err)
	}
	for _, empty := range []string{"", "# nothing\n", "---\n", "{}\n"} {
		if got, err := policyfile.Parse([]byte(empty), "p.yaml"); err != nil || !reflect.DeepEqual(got, policy.Policy{}) {
			t.Errorf("Parse(%q) = %+v, %v", empty, got, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"an unknown key", "drivers: [vfio]\nsource: [/srv]\n", `p.yaml:2:1: unknown key "source"`},
		{"no list", "drivers: vfio\n", `p.yaml:1:10: drivers is "vfio"; want a list`},
		{"no keys", "- vfio\n", "p.yaml:1:1: the file is a list; want keys with values"},
		{"a key twice", "drivers: [a]\ndrivers: [b]\n", `p.yaml:2:1: key "drivers" occurs twice`},
		{"an entry twice", "drivers: [a, a]\n", "p.yaml:1:14: drivers[1]"},
		{"a list in a list", "drivers: [[a]]\n", "p.yaml:1:11: drivers[0] is a list; want one value"},
		{"no name", "drivers: [~]\n", "p.yaml:1:11: drivers[0] has no value"},
		{"a pattern", "drivers: ['*']\n", "p.yaml:1:11: drivers[0]"},
		{"A29 memory", "drivers:\n  - mem\n", `p.yaml:2:5: drivers[0]: "mem" cannot be allowed`},
		{"A31 the sockets of managers", "sources: [/srv, /run]\n", `p.yaml:1:17: sources[1]: "/run" cannot be allowed`},
		{"A8 loader variables", "environment: [LD_PRELOAD]\n", `(rule "env-deny LD_*")`},
		{"B12 an alias", "drivers: &a [x]\nsources: *a\n", `p.yaml:1:10: "anchor &a" is not allowed`},
		{"B12 a tag", "drivers: !!seq [x]\n", `p.yaml:1:10: "tag !!seq" is not allowed`},
		{"B14 a second document", "drivers: [x]\n---\ndrivers: [y]\n", "p.yaml:2:1: a second document"},
		{"B12 cut", "drivers: [x\n", "not YAML"},
		{"B11 nesting", strings.Repeat("[", 5000), "p.yaml:1:2049: more than 2048 brackets are open"},
		{"B18 hidden text", "drivers: [x] # \u202e\n", "p.yaml:1:16: character U+202E"},
		{"B18 no UTF-8", "drivers: [\xff]\n", "p.yaml:1:11: the byte 0xff is not UTF-8"},
		{"B9 too large", strings.Repeat("#", 70_000), "p.yaml: has 70000 bytes; a policy has at most 65536"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, err := policyfile.Parse([]byte(tc.text), "p.yaml")
			if err == nil || !strings.Contains(err.Error(), tc.want) || !errors.Is(err, policyfile.ReasonPolicy) {
				t.Errorf("Parse = %v, want %q", err, tc.want)
			}
			if !reflect.DeepEqual(p, policy.Policy{}) {
				t.Errorf("an error came with %+v", p)
			}
		})
	}
}

// a machine with directories /etc and /etc/gpurig and the file, as said.
type machine struct {
	file, dir host.Info
	none      bool
}

func (m machine) Lstat(p string) (host.Info, error) {
	switch {
	case p == policy.File && !m.none:
		return m.file, nil
	case p == "/etc/gpurig":
		return m.dir, nil
	case p == "/" || p == "/etc":
		return host.Info{Mode: fs.ModeDir | 0o755}, nil
	}
	return host.Info{}, &fs.PathError{Op: "lstat", Path: p, Err: fs.ErrNotExist}
}
func (machine) Readlink(p string) (string, error)  { return "", fs.ErrInvalid }
func (machine) ReadDir(p string) ([]string, error) { return nil, fs.ErrInvalid }
func (machine) ReadFile(string) ([]byte, error)    { return []byte(whole), nil }

// A32: the policy of a host is root's alone.
func TestSystemA32(t *testing.T) {
	good := machine{file: host.Info{Mode: 0o644}, dir: host.Info{Mode: fs.ModeDir | 0o755}}
	for _, tc := range []struct {
		name   string
		change func(*machine)
		want   refuse.Reason
	}{
		{name: "root's", change: func(*machine) {}},
		{name: "none", change: func(m *machine) { m.none = true }},
		{name: "a user's", change: func(m *machine) { m.file.UID = 1000 }, want: policyfile.ReasonUntrusted},
		{name: "of a group", change: func(m *machine) { m.file.Mode = 0o664 }, want: policyfile.ReasonUntrusted},
		{name: "in everybody's folder", change: func(m *machine) { m.dir.Mode = fs.ModeDir | 0o777 }, want: policyfile.ReasonUntrusted},
		{name: "a FIFO", change: func(m *machine) { m.file.Mode = fs.ModeNamedPipe | 0o644 }, want: policyfile.ReasonPolicy},
		{name: "too large", change: func(m *machine) { m.file.Size = 1 << 20 }, want: policyfile.ReasonPolicy},
	} {
		m := good
		tc.change(&m)
		p, err := policyfile.System(m)
		if tc.want == "" && (err != nil || (len(p.Drivers) > 0) == m.none) || tc.want != "" && (!errors.Is(err, tc.want) || len(p.Drivers) > 0) {
			t.Errorf("%s: System = %+v, %v; want %q", tc.name, p, err, tc.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{whole, "", "drivers: [vfio]", "drivers: &a [x]\nsources: *a", "<<: {a: b}", "---\n---\n", "environment: [LD_PRELOAD]", "sources: [/]"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := policyfile.Parse(data, "p.yaml")
		if err != nil {
			if !reflect.DeepEqual(p, policy.Policy{}) || len(refuse.As(err)) == 0 {
				t.Fatalf("%v came with %+v", err, p)
			}
			return
		}
		if err := p.Validate(); err != nil {
			t.Fatalf("what was read is not valid: %v", err)
		}
		text, err := yaml.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := policyfile.Parse(text, "again.yaml"); err != nil || !reflect.DeepEqual(again, p) && len(p.InForce()) != len(again.InForce()) {
			t.Fatalf("%+v is read again as %+v, %v\n%s", p, again, err, text)
		}
	})
}
