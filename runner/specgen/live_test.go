package specgen_test

import (
	"testing"

	"gpurig/fakehw/profiles"
	"gpurig/runner/specgen"
)

// A host that is entered keeps the windows of its functions while one is pulled out.
func TestALiveHostKnowsWhatWasPulledOut(t *testing.T) {
	p, err := profiles.Load("t4-server")
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.Model()
	if err != nil {
		t.Fatal(err)
	}
	h, err := specgen.Request{Model: m}.Live()
	if err != nil {
		t.Fatal(err)
	}
	windows := func() string {
		data, err := h.Tree().ReadFile("/sys/bus/pci/devices/0000:af:00.0/resource")
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	before := windows()
	if no := h.Write("/sys/devices/pci0000:3a/0000:3a:01.0/0000:3b:00.0/remove", []byte("1")); no != 0 {
		t.Fatal(no)
	}
	if windows() != before {
		t.Errorf("were\n%sare\n%s", before, windows())
	}
}
