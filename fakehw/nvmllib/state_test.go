package nvmllib

import (
	"bytes"
	"testing"

	"gpurig/core/host"
	"gpurig/fakehw"
	"gpurig/fakehw/nvmlfake"
	"gpurig/fakehw/profiles"
)

// What GPUs have in common is made once, and must be what each would have said.
func TestGPUsShareOnlyWhatIsTheSame(t *testing.T) {
	for _, name := range append(profiles.Names(), "cut in many ways") {
		m := model(t, name)
		alone := &state{}
		alone.all(m, nvmlfake.Options{})
		if got := State(m); !bytes.Equal(got, alone.Bytes()) {
			t.Errorf("%s: with what is shared\n%s\nwithout\n%s", name, got, alone.Bytes())
		}
	}
}

func model(t *testing.T, name string) host.Model {
	t.Helper()
	shipped := name
	cuts := [][]string{{"7g.40gb"}, {"4g.20gb", "3g.20gb"}, {"3g.20gb/1c/2c", "3g.20gb/1c/1c"}, {"1g.5gb:0"}, {"1g.5gb:6"}, {"3g.20gb/2c/1c"}, {}}
	if name == "cut in many ways" {
		shipped = "dgx-a100"
	}
	p, err := profiles.Load(shipped)
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.Model()
	if err != nil {
		t.Fatal(err)
	}
	if name == shipped {
		return m
	}
	for i, cut := range cuts {
		if m, err = fakehw.WithMIG(m, i, cut, false); err != nil {
			t.Fatal(err)
		}
	}
	return m
}
