package driverctl_test

import (
	"errors"
	"strings"
	"testing"

	"gpurig/fakehw/driverctl"
)

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		why      string // part of the refusal; empty: in is what String gives back
	}{
		{name: "a mode by index", in: "mig-mode 0 1"},
		{name: "a mode by address", in: "mig-mode 0000:07:00.0 0"},
		{name: "an instance anywhere", in: "create-gi 0 19"},
		{name: "an instance at a slice", in: "create-gi 0 9 4"},
		{name: "a compute instance of a profile", in: "create-ci 7 2 0"},
		{name: "a compute instance that has all", in: "create-ci 7 2 default"},
		{name: "destruction", in: "destroy-gi 0 14"},
		{name: "destruction of a part", in: "destroy-ci 0 14 1"},
		{name: "a reset", in: "reset 3"},
		{name: "persistence", in: "persistence 3 1"},
		{name: "virtual functions", in: "sriov 0000:e8:00.0 16"},
		{name: "nodes", in: "make-nodes uvm"},

		{name: "nodes of nothing", in: "make-nodes", why: "no group"},
		{name: "nodes of something else", in: "make-nodes tty", why: "none of gpus"},
		{name: "nothing", in: "", why: "unknown verb"},
		{name: "an unknown verb", in: "format 0", why: `unknown verb "format"`},
		{name: "no GPU", in: "reset", why: "no GPU"},
		{name: "half an address", in: "reset 07:00", why: "neither an index nor a PCI address"},
		{name: "a negative index", in: "reset -1", why: "neither an index nor a PCI address"},
		{name: "two spaces", in: "mig-mode  0 1", why: "one space"},
		{name: "a trailing space", in: "reset 0 ", why: "too much"},
		{name: "a mode of two", in: "mig-mode 0 2", why: "not 0 or 1"},
		{name: "a number with a sign", in: "create-gi 0 +9", why: "not a number"},
		{name: "a number with a zero before it", in: "create-gi 0 09", why: "not a number"},
		{name: "a number too large", in: "create-gi 0 65536", why: "0 to 65535"},
		{name: "one word too much", in: "create-gi 0 9 4 4", why: "too much"},
		{name: "a second line", in: "reset 0\nreset 1", why: "neither"},
		{name: "a line too long", in: "reset " + strings.Repeat("0", driverctl.MaxLine), why: "longer than"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := driverctl.Parse(tc.in)
			if tc.why == "" {
				if err != nil || c.String() != tc.in {
					t.Errorf("Parse(%q) = %v, %v", tc.in, c, err)
				}
				return
			}
			if !errors.Is(err, driverctl.ErrSyntax) || !strings.Contains(err.Error(), tc.why) || c != (driverctl.Command{}) {
				t.Errorf("Parse(%q) = %+v, %v; want an error with %q", tc.in, c, err, tc.why)
			}
		})
	}
}

// A line that a program inside the machine sends is a stranger's (B22).
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"mig-mode 0 1", "create-gi 0000:07:00.0 9 4", "create-ci 0 1 default", "sriov 0000:e8:00.0 16", "make-nodes caps", "reset", "ok 1 2", "error 4 no"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		c, err := driverctl.Parse(line)
		if err != nil {
			if c != (driverctl.Command{}) || !errors.Is(err, driverctl.ErrSyntax) {
				t.Fatalf("Parse(%q) = %+v, %v", line, c, err)
			}
		} else if again, err := driverctl.Parse(c.String()); err != nil || again != c {
			t.Fatalf("Parse(%q) is %+v, whose own line is %+v, %v", line, c, again, err)
		}
		r, err := driverctl.ParseReply(line)
		if err != nil {
			return
		}
		if s := r.String(); len(s) >= driverctl.MaxLine || strings.Contains(s, "\n") {
			t.Fatalf("the reply %q is no line", s)
		} else if again, err := driverctl.ParseReply(s); err != nil || again.Code != r.Code {
			t.Fatalf("ParseReply(%q) is %+v, whose own line is %+v, %v", line, r, again, err)
		}
	})
}
