package cdi_test

import (
	"errors"
	"strings"
	"testing"

	"gpurig/core/cdi"
	"gpurig/core/refuse"
)

type nameCase struct {
	name, in string
	want     cdi.Name
	bad      string // part of the message
	hint     string // part of the hint
}

// nameCases are the cases of TestParseName_B19, which the fuzz target begins with.
func nameCases() []nameCase {
	long := strings.Repeat("a", 100_000)
	return []nameCase{
		{name: "an index", in: "nvidia.com/gpu=0", want: cdi.Name{"nvidia.com", "gpu", "0"}},
		{name: "all", in: "amd.com/gpu=all", want: cdi.Name{"amd.com", "gpu", "all"}},
		{name: "ALL is a name like any other", in: "amd.com/gpu=ALL", want: cdi.Name{"amd.com", "gpu", "ALL"}},
		{name: "a colon in the device", in: "nvidia.com/mig=0:1", want: cdi.Name{"nvidia.com", "mig", "0:1"}},
		{name: "one-char parts (one-char-name)", in: "a/b=c", want: cdi.Name{"a", "b", "c"}},
		{name: "a vendor of 253 bytes", in: long[:253] + "/b=c", want: cdi.Name{long[:253], "b", "c"}},
		{name: "a device of 63 bytes", in: "a/b=" + long[:63], want: cdi.Name{"a", "b", long[:63]}},

		{name: "empty", in: "", bad: `"": it is empty`, hint: "nvidia.com/gpu=0"},
		{name: "no device", in: "nvidia.com/gpu", bad: "the device is missing", hint: "nvidia.com/gpu=all"},
		{name: "an empty device (B48)", in: "nvidia.com/gpu=", bad: "the device is empty"},
		{name: "only an index", in: "=0", bad: "the class is missing"},
		{name: "a vendor without class", in: "nvidia.com=0", bad: "the class is missing"},
		{name: "an empty vendor", in: "/gpu=0", bad: "the vendor is empty"},
		{name: "an empty class", in: "nvidia.com/=0", bad: "the class is empty"},
		{name: "dots as a vendor", in: "../gpu=0", bad: "begin with a letter"},
		{name: "a slash in the class", in: "a/b/c=0", bad: "'/'"},
		{name: "an equals sign in the device", in: "a/b=c=d", bad: "'='"},
		{name: "a Cyrillic letter", in: "nvidi\u0430.com/gpu=0", bad: `"nvidi\u0430.com/gpu=0"`},
		{name: "a leading dash", in: "-x/gpu=0", bad: "begin with a letter"},
		{name: "a trailing dash", in: "x-/gpu=0", bad: "end with a letter or digit"},
		{name: "a device that begins with a dash", in: "a/b=-x", bad: "begin with a letter or digit"},
		{name: "a device that ends with a colon", in: "a/b=0:", bad: "end with a letter or digit"},
		{name: "a vendor that begins with a digit", in: "0a/b=c", bad: "begin with a letter"},
		{name: "a vendor of 254 bytes", in: long[:254] + "/b=c", bad: "254 bytes, at most 253"},
		{name: "a class of 64 bytes", in: "a/" + long[:64] + "=c", bad: "64 bytes, at most 63"},
		{name: "100,000 bytes are not repeated", in: long, bad: "… (100000 bytes)"},
		{name: "a line feed", in: "a/b=c\nd", bad: `'\n'`},
		{name: "a space", in: " nvidia.com/gpu=0", bad: "the vendor has the character ' ' at byte 1", hint: "nvidia.com/gpu=0"},
		{name: "the MIG name of old drivers (mig-uuid-format)", in: "nvidia.com/mig=MIG-GPU-11111111-2222-3333-4444-555555555555/1/0", bad: "before 470", hint: "mig.gi"},
	}
}

func TestParseName_B19(t *testing.T) {
	for _, tc := range nameCases() {
		t.Run(tc.name, func(t *testing.T) {
			got, err := cdi.ParseName(tc.in)
			if tc.bad == "" {
				if err != nil || got != tc.want || got.String() != tc.in {
					t.Fatalf("ParseName(%q) = %v, %v; want %v", tc.in, got, err, tc.want)
				}
				return
			}
			es := refuse.As(err)
			if !errors.Is(err, cdi.ReasonBadName) || got != (cdi.Name{}) || len(es) != 1 {
				t.Fatalf("ParseName(%.80q) = %v, %v; want a refusal %q", tc.in, got, err, cdi.ReasonBadName)
			}
			if !strings.Contains(err.Error(), tc.bad) && !strings.Contains(err.Error(), strings.ReplaceAll(tc.bad, `\n`, "\n")) {
				t.Errorf("ParseName(%.80q): %v; want it to say %s", tc.in, err, tc.bad)
			}
			if es[0].Hint == "" || !strings.Contains(es[0].Hint, tc.hint) {
				t.Errorf("ParseName(%.80q): the hint is %q; want it to say %q", tc.in, es[0].Hint, tc.hint)
			}
			if strings.ContainsAny(err.Error(), "\n\u0430") || len(err.Error()) > 400 {
				t.Errorf("ParseName(%.80q): the message is no short ASCII line: %q", tc.in, err)
			}
		})
	}
}

const (
	gpuUUID = "11111111-2222-3333-4444-aaaaaaaaaaaa"
	migUUID = "99999999-8888-5777-6666-bbbbbbbbbbbb"
)

// TestAsk walks every row of the table of names.
func TestAsk(t *testing.T) {
	for _, tc := range []struct {
		in     string
		form   cdi.Form
		names  string // candidates after the name itself, joined by spaces, without the kind
		reason refuse.Reason
	}{
		{in: "nvidia.com/gpu=0", form: cdi.FormGPU, names: "gpu0"},
		{in: "nvidia.com/gpu=gpu0", form: cdi.FormGPU, names: "0"},
		{in: "nvidia.com/gpu=12", form: cdi.FormGPU, names: "gpu12"},
		{in: "nvidia.com/gpu=GPU-" + gpuUUID, form: cdi.FormGPU},
		{in: "nvidia.com/gpu=GPU-" + strings.ToUpper(gpuUUID), form: cdi.FormGPU, names: "GPU-" + gpuUUID},
		{in: "nvidia.com/gpu=" + gpuUUID, form: cdi.FormGPU, names: "GPU-" + gpuUUID},
		{in: "nvidia.com/gpu=all", form: cdi.FormAll},
		{in: "nvidia.com/mig=0:1", form: cdi.FormMIG, names: "0:1 mig0:1"},
		{in: "nvidia.com/mig=mig0:1", form: cdi.FormMIG, names: "0:1 mig0:1"},
		{in: "nvidia.com/gpu=mig0:1", form: cdi.FormMIG, names: "0:1"},
		{in: "nvidia.com/gpu=0:1", form: cdi.FormMIG, names: "mig0:1"},
		{in: "nvidia.com/mig=MIG-" + migUUID, form: cdi.FormMIG, names: "MIG-" + migUUID},
		{in: "nvidia.com/mig=" + migUUID, form: cdi.FormMIG, names: "MIG-" + migUUID},
		{in: "nvidia.com/gpu=MIG-" + migUUID, form: cdi.FormMIG},
		{in: "nvidia.com/igpu=0", form: cdi.FormIGPU, names: "igpu0 0 gpu0"},
		{in: "nvidia.com/igpu=igpu0", form: cdi.FormIGPU, names: "igpu0 0 gpu0"},
		{in: "nvidia.com/igpu=all", form: cdi.FormIGPU, names: "igpu0 0 gpu0"},
		{in: "nvidia.com/gpu=igpu0", form: cdi.FormIGPU, names: "0 gpu0"},
		{in: "nvidia.com/igpu=" + gpuUUID, form: cdi.FormIGPU, names: gpuUUID + " GPU-" + gpuUUID},
		{in: "amd.com/gpu=0", form: cdi.FormOther},
		{in: "amd.com/gpu=all", form: cdi.FormAll},
		{in: "vendor.com/class=name", form: cdi.FormOther},
		{in: "nvidia.com/imex-channel=0", form: cdi.FormOther},
		{in: "nvidia.com/gpu=00", form: cdi.FormOther},
		{in: "nvidia.com/gpu=1000", form: cdi.FormOther},
		{in: "nvidia.com/gpu=igpu1", form: cdi.FormOther},
		{in: "management.nvidia.com/gpu=all", form: cdi.FormAll},

		{in: "nvidia.com/mig=all", reason: cdi.ReasonMIGAll},
		{in: "nvidia.com/mig=0", reason: cdi.ReasonFullGPUOnMIG},
		{in: "nvidia.com/mig=gpu0", reason: cdi.ReasonFullGPUOnMIG},
		{in: "nvidia.com/mig=igpu0", reason: cdi.ReasonFullGPUOnMIG},
		{in: "nvidia.com/mig=GPU-" + gpuUUID, reason: cdi.ReasonFullGPUOnMIG},
		{in: "nvidia.com/igpu=1", reason: cdi.ReasonNotFound},
		{in: "nvidia.com/igpu=0:1", reason: cdi.ReasonNotFound},
		{in: "nvidia.com/igpu=MIG-" + migUUID, reason: cdi.ReasonNotFound},
	} {
		t.Run(tc.in, func(t *testing.T) {
			n, err := cdi.ParseName(tc.in)
			if err != nil {
				t.Fatal(err)
			}
			a, err := n.Ask()
			if tc.reason != "" {
				if es := refuse.As(err); len(es) != 1 || es[0].Reason != tc.reason || !strings.Contains(es[0].Hint, "Write nvidia.com/") {
					t.Fatalf("Ask(%s) = %v; want the reason %q with a hint that says what to write", tc.in, err, tc.reason)
				}
				return
			}
			var names []string
			for _, c := range a.Names {
				if c.Kind() != "nvidia.com/gpu" {
					t.Errorf("Ask(%s) names %s, of another kind than generated Specs have", tc.in, c)
				}
				names = append(names, c.Device)
			}
			if got := strings.Join(names, " "); err != nil || a.Form != tc.form || got != tc.names {
				t.Errorf("Ask(%s) = form %q, names %q, %v; want %q, %q", tc.in, a.Form, got, err, tc.form, tc.names)
			}
		})
	}
}

func FuzzParseName(f *testing.F) {
	for _, s := range []string{"", "a", "a/", "a/b", "a/b=", "a/b=c", "=", "/=", "nvidia.com/gpu=0", "nvidia.com/mig=0:1",
		"nvidia.com/gpu=GPU-" + gpuUUID, "nvidia.com/igpu=all", "a/b=\xff", "nvidia.com/mig=MIG-" + migUUID} {
		f.Add(s)
	}
	for _, tc := range nameCases() {
		if len(tc.in) < 1<<16 {
			f.Add(tc.in)
		}
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := cdi.ParseName(s)
		if err != nil {
			if n != (cdi.Name{}) || strings.Contains(err.Error(), "\n") || len(refuse.As(err)) != 1 {
				t.Fatalf("ParseName(%q) = %v, %q; want no name and one refusal on one line", s, n, err)
			}
			return
		}
		if n.String() != s {
			t.Fatalf("ParseName(%q) prints as %q", s, n)
		}
		a, err := n.Ask()
		if err != nil {
			return
		}
		for _, c := range a.Names {
			if _, err := cdi.ParseName(c.String()); err != nil || c == n {
				t.Fatalf("Ask(%q) names %q: %v", s, c, err)
			}
		}
	})
}
