package lxc

import (
	"strings"
	"testing"

	"gpurig/core/plan"
)

// The rules of liblxc's parser, one line each.
func TestReadLine(t *testing.T) {
	for _, tc := range []struct {
		in, key, value string
		ok             bool
	}{
		{in: "lxc.environment = A=b", key: "lxc.environment", value: "A=b", ok: true},
		{in: "  lxc.autodev=1  ", key: "lxc.autodev", value: "1", ok: true},
		{in: `lxc.uts.name = "a b"`, key: "lxc.uts.name", value: "a b", ok: true},
		{in: `lxc.uts.name = "a'`, key: "lxc.uts.name", value: `"a'`, ok: true},
		{in: "# lxc.autodev = 1"},
		{in: "autodev = 1"},
		{in: "lxc.autodev"},
		{in: ""},
	} {
		key, value, ok := readLine(tc.in)
		if key != tc.key || value != tc.value || ok != tc.ok {
			t.Errorf("readLine(%q) = %q, %q, %v; want %q, %q, %v", tc.in, key, value, ok, tc.key, tc.value, tc.ok)
		}
	}
}

// The rules of getmntent(3), as glibc decodes fields.
func TestDecode(t *testing.T) {
	for in, want := range map[string]string{
		`a\040b`: "a b", `a\134040b`: `a\040b`, `a\\040b`: `a\040b`, `a\011`: "a\t", `\012`: "\n", `\04`: `\04`, `\\\`: `\\`, `\`: `\`,
	} {
		if got := decode(in); got != want {
			t.Errorf("decode(%q) = %q, want %q", in, got, want)
		}
	}
	for _, bad := range []string{"", "# a b none bind 0 0", "a b none bind 0", "a b none bind 0 0 0"} {
		if _, err := readEntry(bad); err == nil {
			t.Errorf("readEntry(%q) has no error", bad)
		}
	}
}

// B30: whatever a plan says, the lines are read as the plan says it, or there are
// none. The reader here is written apart from the writer's own check.
func FuzzEmitRoundTrip(f *testing.F) {
	for _, s := range [][3]string{
		{"/usr/lib/libcuda.so.1", "/usr/lib/libcuda.so.1", "void"},
		{"/a b", `/c\d`, "x y"},
		{`/a\040`, "/#", `"quoted"`},
		{"/\n", "/\r", "\x00"},
		{"#x", "x", " "},
		{"/a\u2028", "/a\u0085", "\xff"},
		{"//", "/..", "a\\"},
	} {
		f.Add(s[0], s[1], s[2])
	}
	f.Fuzz(func(t *testing.T, source, target, value string) {
		p := plan.Plan{
			Mounts: []plan.Mount{{Source: source, Target: target, Options: []string{"ro", "nosuid", "nodev", "bind"}}},
			Env:    []plan.Var{{Name: "NVIDIA_X", Value: value}},
		}
		c, err := Emit(p, Options{HookPath: "/cdi-hook", HookFile: "/hook.json"})
		if err != nil {
			if len(c.Entries) > 0 {
				t.Fatalf("lines along with the error %v", err)
			}
			return
		}
		entries, env := 0, 0
		for _, line := range strings.Split(strings.TrimSuffix(c.Text(), "\n"), "\n") {
			if len(line) > maxLine {
				t.Fatalf("a line of %d bytes", len(line))
			}
			switch key, rest, _ := strings.Cut(line, " = "); key {
			case "lxc.mount.entry":
				entries++
				fields := strings.Split(rest, " ")
				if len(fields) != 6 || decode(fields[0]) != source || "/"+decode(fields[1]) != target || fields[2] != "none" {
					t.Fatalf("entry %q for %q on %q", rest, source, target)
				}
			case "lxc.environment":
				env++
				if rest != "NVIDIA_X="+value {
					t.Fatalf("variable %q for value %q", rest, value)
				}
			case "lxc.autodev", "lxc.hook.version", "lxc.hook.pre-start", "lxc.hook.post-stop":
			default:
				t.Fatalf("line %q", line)
			}
		}
		if entries != 1 || env != 1 {
			t.Fatalf("%d entries and %d variables:\n%s", entries, env, c.Text())
		}
	})
}
