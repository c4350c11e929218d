package hook

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzParseJob(f *testing.F) {
	for _, seed := range [][3]string{
		{"--stage\x00apply\x00--root\x00/r\x00/f.json", "", ""}, {"/f.json\x00c1\x00lxc\x00mount", "", "/r"},
		{"--oci\x00/f.json", "", ""}, {"/f.json", "start-host", "17"}, {"/f.json", "pre-start", "dir:/r"}, {"--pid\x00-1\x00/f", "", ""},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, line, kind, value string) {
		args := strings.Split(line, "\x00")
		if slices.Contains(args, "--oci") || slices.Contains(args, "-oci") || strings.Contains(line, "oci=") {
			return // reads a file of the host
		}
		env := map[string]string{}
		if kind != "" {
			env = map[string]string{"LXC_HOOK_TYPE": kind, "LXC_ROOTFS_MOUNT": value, "LXC_ROOTFS_PATH": value, "LXC_PID": value}
		}
		j, err := parseJob(args, env, strings.NewReader(""))
		if err != nil {
			if exitCode(err) != ExitUsage {
				t.Fatalf("%q: %v is not a wrong call", args, err)
			}
			return
		}
		switch {
		case !strings.HasPrefix(j.File, "/"), j.Stage == "", (j.Root == "") == (j.PID == 0), j.PID < 0,
			j.Root == "/", j.Root != "" && !strings.HasPrefix(j.Root, "/"), strings.Contains(j.Root, "/.."):
			t.Fatalf("%q, %v: %+v", args, env, j)
		}
	})
}

func FuzzPrintable(f *testing.F) { // A37
	f.Add("a\x1b[2J\r\n\u202e</script>\xff")
	f.Add(strings.Repeat("\u0085", 2000))
	f.Fuzz(func(t *testing.T, s string) {
		out := printable(s)
		if !utf8.ValidString(out) || len(out) > 12*4*maxLine {
			t.Fatalf("%q", out)
		}
		for _, r := range out {
			if r < 0x20 || r >= 0x7f && r <= 0xa0 || r >= 0x2028 && r <= 0x202e {
				t.Fatalf("%q has %q", out, r)
			}
		}
	})
}
