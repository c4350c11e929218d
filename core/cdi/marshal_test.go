package cdi_test

import (
	"strings"
	"testing"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/cdi"
	"gpurig/core/refuse"
)

func TestMarshalWritesTheSameBytesEachTime(t *testing.T) {
	spec := &specs.Spec{Version: "0.6.0", Kind: "a/b", Annotations: map[string]string{}, Devices: []specs.Device{{Name: "0", ContainerEdits: specs.ContainerEdits{Env: []string{"A=<&>"}}}}}
	for _, k := range strings.Split("qwertyuiop", "") {
		spec.Annotations[k] = "<" + k + ">"
	}
	for _, format := range []cdi.Format{cdi.YAML, cdi.JSON} {
		first, err := cdi.Marshal(spec, format)
		if err != nil || !strings.HasSuffix(string(first), "\n") || !strings.Contains(string(first), "A=<&>") {
			t.Fatalf("Marshal as %s: %q, %v", format, first, err)
		}
		for range 20 {
			if again, _ := cdi.Marshal(spec, format); string(again) != string(first) {
				t.Fatalf("Marshal as %s gives\n%s\nand then\n%s", format, first, again)
			}
		}
	}
}

func TestMarshalRefusesWhatItCannotWrite(t *testing.T) {
	if out, err := cdi.Marshal(&specs.Spec{}, "xml"); err == nil || out != nil {
		t.Errorf("Marshal as xml = %q, %v", out, err)
	}
	if out, err := cdi.Marshal(nil, cdi.YAML); err == nil || out != nil {
		t.Errorf("Marshal of nothing = %q, %v", out, err)
	}
}

func TestMarshalQuotesNamesThatLookLikeNumbers_B17(t *testing.T) {
	for _, name := range []string{"0", "0:1", "1e3", "no", "null", "0x10", "2024-01-01"} {
		spec := &specs.Spec{Version: "0.5.0", Kind: "a/b", Devices: []specs.Device{{Name: name, ContainerEdits: specs.ContainerEdits{Env: []string{"A=1"}}}}}
		out, err := cdi.Marshal(spec, cdi.YAML)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := cdi.Parse(out, "a.yaml"); err != nil || again.Devices[0].Name != name {
			t.Errorf("the name %q comes back as %v, %v", name, again, err)
		}
	}
}

func TestModesAboveSayWhatToWrite_octal_vs_decimal(t *testing.T) {
	for text, want := range map[string]string{"666": "write 438, or in YAML 0666", "01777": "Set-id", "660": "write 432, or in YAML 0660"} {
		_, err := cdi.Parse([]byte(nodeSpec("path: /dev/a\nfileMode: "+text)), "a.yaml")
		if es := refuse.As(err); len(es) != 1 || es[0].Reason != cdi.ReasonSpecMode || !strings.Contains(es[0].Hint, want) {
			t.Errorf("fileMode: %s is refused as %v; want a hint that says %q", text, err, want)
		}
	}
}
