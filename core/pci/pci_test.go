package pci_test

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"gpurig/core/pci"
)

func TestParseBDF(t *testing.T) {
	for _, tc := range []struct {
		name, in, want string
		bad            bool // want a *SyntaxError that quotes in
	}{
		{name: "sysfs", in: "0000:65:00.0", want: "0000:65:00.0"},
		{name: "short, as lspci prints it", in: "65:00.1", want: "0000:65:00.1"},
		{name: "the NVML form, shortened", in: "00000000:65:00.0", want: "0000:65:00.0"},
		{name: "upper case", in: "00000000:C1:1F.7", want: "0000:c1:1f.7"},
		{name: "a VMD domain", in: "10000:e1:00.0", want: "10000:e1:00.0"},
		{name: "a GB200 domain", in: "0008:01:00.0", want: "0008:01:00.0"},
		{name: "the largest of all", in: "ffffffff:ff:1f.7", want: "ffffffff:ff:1f.7"},
		{name: "empty", in: "", bad: true},
		{name: "colon before the function", in: "0000:65:00:0", bad: true},
		{name: "no function", in: "0000:65:00", bad: true},
		{name: "empty function", in: "0000:65:00.", bad: true},
		{name: "two functions", in: "0000:65:00.0.0", bad: true},
		{name: "function 8", in: "0000:65:00.8", bad: true},
		{name: "function in two digits", in: "0000:65:00.00", bad: true},
		{name: "device 32", in: "0000:65:20.0", bad: true},
		{name: "bus in one digit", in: "0000:5:00.0", bad: true},
		{name: "bus in three digits", in: "0000:065:00.0", bad: true},
		{name: "domain in three digits", in: "000:65:00.0", bad: true},
		{name: "domain in nine digits", in: "000000000:65:00.0", bad: true},
		{name: "four parts", in: "0:0000:65:00.0", bad: true},
		{name: "one part", in: "65.0", bad: true},
		{name: "no hex", in: "0000:6g:00.0", bad: true},
		{name: "0x", in: "0x00:65:00.0", bad: true},
		{name: "sign", in: "+000:65:00.0", bad: true},
		{name: "minus", in: "0000:-1:00.0", bad: true},
		{name: "underscore", in: "0_00:65:00.0", bad: true},
		{name: "blanks", in: " 0000:65:00.0", bad: true},
		{name: "line break at the end", in: "0000:65:00.0\n", bad: true},
		{name: "digits of another script", in: "0000:٦٥:00.0", bad: true},
		{name: "a CDI name", in: "nvidia.com/gpu=0", bad: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := pci.ParseBDF(tc.in)
			if tc.bad {
				if e, ok := errors.AsType[*pci.SyntaxError](err); !ok || e.Text != tc.in || e.Why == "" || got != (pci.BDF{}) {
					t.Fatalf("ParseBDF(%q) = %v, %v; want a SyntaxError quoting the input", tc.in, got, err)
				}
				return
			}
			if err != nil || got.String() != tc.want {
				t.Errorf("ParseBDF(%q) = %v, %v; want %s", tc.in, got, err, tc.want)
			}
		})
	}
}

// sysfs writes at least four digits of domain, NVML always eight.
func TestBDFForms(t *testing.T) {
	for _, tc := range []struct {
		bdf         pci.BDF
		sysfs, nvml string
	}{
		{pci.BDF{}, "0000:00:00.0", "00000000:00:00.0"},
		{pci.BDF{Bus: 0xC1, Device: 31, Function: 7}, "0000:c1:1f.7", "00000000:C1:1F.7"},
		{pci.BDF{Domain: 0x10000, Bus: 0xe1}, "10000:e1:00.0", "00010000:E1:00.0"},
		{pci.BDF{Domain: math.MaxUint32}, "ffffffff:00:00.0", "FFFFFFFF:00:00.0"},
	} {
		if got := tc.bdf.String(); got != tc.sysfs {
			t.Errorf("String() = %s; want %s", got, tc.sysfs)
		}
		if got := tc.bdf.NVML(); got != tc.nvml {
			t.Errorf("NVML() = %s; want %s", got, tc.nvml)
		}
		for _, text := range []string{tc.sysfs, tc.nvml} {
			if got, err := pci.ParseBDF(text); err != nil || got != tc.bdf {
				t.Errorf("ParseBDF(%q) = %v, %v; want %v", text, got, err, tc.bdf)
			}
		}
	}
}

func TestBDFOrder(t *testing.T) {
	want := []pci.BDF{
		{}, {Function: 7}, {Device: 1}, {Device: 31, Function: 7}, {Bus: 1}, {Bus: 255, Device: 31, Function: 7},
		{Domain: 1}, {Domain: 0x10000}, {Domain: math.MaxUint32},
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, pci.BDF.Compare)
	if !slices.Equal(got, want) {
		t.Errorf("sorted %v; want %v", got, want)
	}
	if c := want[3].Compare(want[3]); c != 0 {
		t.Errorf("an address compared with itself: %d; want 0", c)
	}
}

func TestBDFInJSON(t *testing.T) {
	in := map[pci.BDF]pci.BDF{{Bus: 0x65}: {Domain: 0x10000, Bus: 0xe1}}
	text, err := json.Marshal(in)
	if want := `{"0000:65:00.0":"10000:e1:00.0"}`; err != nil || string(text) != want {
		t.Errorf("Marshal = %s, %v; want %s", text, err, want)
	}
	kept := pci.BDF{Bus: 9}
	if err := json.Unmarshal([]byte(`"65:00"`), &kept); err == nil || kept != (pci.BDF{Bus: 9}) {
		t.Errorf("Unmarshal of a bad address: %v, %v; want an error and the value kept", kept, err)
	}
}

func TestIDAndClass(t *testing.T) {
	if got := (pci.ID{Vendor: pci.NVIDIA, Device: 0x20b2, SubVendor: 1}).String(); got != "10de:20b2" {
		t.Errorf("ID.String() = %s; want 10de:20b2", got)
	}
	for _, tc := range []struct {
		class   pci.Class
		text    string
		display bool
	}{
		{pci.ClassVGA, "0x030000", true}, {pci.Class3D, "0x030200", true}, {0x038000, "0x038000", true},
		{pci.ClassAudio, "0x040300", false}, {pci.ClassOther, "0x068000", false}, {pci.ClassAccel, "0x120000", false},
		{0x000300, "0x000300", false}, // the interface byte says nothing
	} {
		if tc.class.String() != tc.text || tc.class.Display() != tc.display {
			t.Errorf("Class %06x: %s, display %v; want %s, %v", uint32(tc.class), tc.class, tc.class.Display(), tc.text, tc.display)
		}
	}
}

func FuzzParseBDF(f *testing.F) {
	for _, seed := range []string{"0000:65:00.0", "00000000:65:00.0", "65:00.0", "10000:E1:1f.7", "", "::.", "+000:0x:__.0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b, err := pci.ParseBDF(s)
		if err != nil {
			if e, ok := errors.AsType[*pci.SyntaxError](err); b != (pci.BDF{}) || !ok || e.Text != s {
				t.Fatalf("ParseBDF(%q) returned %v along with %v", s, b, err)
			}
			return
		}
		for _, text := range []string{b.String(), b.NVML()} {
			if again, err := pci.ParseBDF(text); err != nil || again != b {
				t.Fatalf("%q parsed as %v, whose own text %q parses as %v, %v", s, b, text, again, err)
			}
		}
	})
}

func TestParseID(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want pci.ID
		bad  bool // want a *pci.IDError that quotes in
	}{
		{in: "10de:20b2", want: pci.ID{Vendor: pci.NVIDIA, Device: 0x20b2}},
		{in: "10DE:20b2:10de:1463", want: pci.ID{Vendor: pci.NVIDIA, Device: 0x20b2, SubVendor: pci.NVIDIA, SubDevice: 0x1463}},
		{in: "", bad: true},
		{in: "10de:20b2:10de", bad: true},
		{in: "10de:+0b2", bad: true},
		{in: "0x10de:20b2", bad: true},
	} {
		got, err := pci.ParseID(tc.in)
		if e, ok := errors.AsType[*pci.IDError](err); got != tc.want || ok != tc.bad || tc.bad && e.Text != tc.in {
			t.Errorf("ParseID(%q) = %+v, %v; want %+v", tc.in, got, err, tc.want)
		}
	}
}

func FuzzParseID(f *testing.F) {
	for _, seed := range []string{"10de:20b2", "10DE:20b2:10de:1463", "10de", ":::", "+0de:_0b2"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := pci.ParseID(s)
		if err != nil {
			if id != (pci.ID{}) {
				t.Fatalf("ParseID(%q) returned %+v along with %v", s, id, err)
			}
			return
		}
		if !strings.EqualFold(s[:9], id.String()) {
			t.Fatalf("%q parsed as %s", s, id)
		}
	})
}
