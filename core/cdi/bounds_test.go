package cdi_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/cdi"
	"gpurig/core/refuse"
)

// allocated is how many bytes f takes in all, freed ones too: a measure of its
// work that no other work on the machine changes.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func sourceOf(devices int, edits specs.ContainerEdits) []cdi.Source {
	spec := &specs.Spec{Kind: "nvidia.com/gpu"}
	for i := range devices {
		spec.Devices = append(spec.Devices, specs.Device{Name: fmt.Sprintf("gpu-%d", i), ContainerEdits: edits})
	}
	return []cdi.Source{{Spec: spec, Where: "a.yaml"}}
}

// P5: a name that is not there is compared with all that are, a few times only.
func TestP5NamesThatAreNotThere(t *testing.T) {
	var names []cdi.Name
	for i := range 1000 {
		names = append(names, cdi.Name{Vendor: "nvidia.com", Class: "gpu", Device: fmt.Sprintf("gpu-x%d", i)})
	}
	var err error
	ask := func(devices int) uint64 {
		sources := sourceOf(devices, specs.ContainerEdits{Env: []string{"A=1"}})
		return allocated(func() { _, err = cdi.Resolve(sources, names) })
	}
	if took := ask(4000); took > 4000*4096 {
		t.Errorf("%d names that are not among 4000 take %d bytes", len(names), took)
	}
	near := 0
	for _, r := range refuse.As(err) {
		if strings.Contains(r.Hint, "Similar names") {
			near++
		}
	}
	if all := len(refuse.As(err)); all != len(names) || near != 10 {
		t.Errorf("%d names are refused, %d with near ones", all, near)
	}
}

// P5: the edits of a device that is asked for again are not looked at again.
func TestP5OneDeviceThousandsOfTimes(t *testing.T) {
	name := cdi.Name{Vendor: "nvidia.com", Class: "gpu", Device: "gpu-0"}
	names := make([]cdi.Name, cdi.MaxAsked)
	for i := range names {
		names[i] = name
	}
	sources := sourceOf(1, specs.ContainerEdits{Env: []string{"A=" + strings.Repeat("x", cdi.MaxSpec)}})
	var edits []cdi.Edits
	var err error
	if took := allocated(func() { edits, err = cdi.Resolve(sources, names) }); err != nil || len(edits) != 2 || took > 64*cdi.MaxSpec {
		t.Errorf("%d edits, %v, and %d bytes for edits of %d", len(edits), err, took, cdi.MaxSpec)
	}
}
